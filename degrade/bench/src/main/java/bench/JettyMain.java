package bench;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.QoSHandler;
import org.eclipse.jetty.util.Callback;
import trial.Services;

/** The services on Jetty: {@code plain}, or {@code qos}, behind its own QoSHandler. */
final class JettyMain {
    private JettyMain() {}

    /** Answers with what a service says. */
    private static final class Serving extends Handler.Abstract {
        @Override
        public boolean handle(Request request, Response response, Callback callback) {
            String said = isLight(request) ? Services.light() : Services.heavy();
            response.write(true, ByteBuffer.wrap(said.getBytes(StandardCharsets.UTF_8)), callback);
            return true;
        }
    }

    /** As many at once as there are CPUs; of those that wait, light ones first. */
    private static final class LightFirst extends QoSHandler {
        LightFirst(Handler handler) {
            super(handler);
            setMaxRequestCount(Runtime.getRuntime().availableProcessors());
        }

        @Override
        protected int getPriority(Request request) {
            return isLight(request) ? 10 : 0;
        }
    }

    private static boolean isLight(Request request) {
        return Request.getPathInContext(request).equals("/light");
    }

    public static void main(String[] arguments) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        Handler serving = new Serving();
        server.setHandler(arguments[0].equals("qos") ? new LightFirst(serving) : serving);
        server.start();
        System.out.println("port " + connector.getLocalPort());
        server.join();
    }
}
