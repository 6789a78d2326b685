package trial;

import java.util.stream.Stream;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.ContextHandler;
import org.eclipse.jetty.server.handler.ContextHandlerCollection;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/**
 * The services on Jetty: as a handler below {@code /core}, as servlets of jakarta below {@code /ee10}, and as servlets
 * of javax below {@code /ee8}. Prints its port. An argument is how many threads there are.
 */
public final class JettyMain {
    /** Without servlets. What is asynchronous completes the callback later. */
    private static final class Core extends Handler.Abstract {
        @Override
        public boolean handle(Request request, Response response, Callback callback) {
            String service = Request.getPathInContext(request).substring("/core/".length());
            switch (service) {
                case "later" -> Services.later(
                        Services.LATER_MILLIS, () -> Content.Sink.write(response, true, "later", callback));
                case "again" -> Services.later(Services.LATER_MILLIS, () -> getServer().getThreadPool()
                        .execute(() -> Content.Sink.write(response, true, Services.heavy(), callback)));
                case "never" -> Services.later(
                        Services.LATER_MILLIS, () -> callback.failed(new IllegalStateException("nobody came")));
                default -> Content.Sink.write(response, true, Services.run(service), callback);
            }
            return true;
        }
    }

    private JettyMain() {}

    private static Stream<String> services() {
        return Stream.of(Services.ALL, Services.LATER).flatMap(Stream::of);
    }

    private static ContextHandler jakarta() {
        var context = new org.eclipse.jetty.ee10.servlet.ServletContextHandler("/ee10");
        services().forEach(service -> {
            var servlet = new org.eclipse.jetty.ee10.servlet.ServletHolder(service, new JakartaServlet(service));
            servlet.setAsyncSupported(true);
            context.addServlet(servlet, "/" + service);
        });
        return context;
    }

    private static ContextHandler javax() {
        var context = new org.eclipse.jetty.ee8.servlet.ServletContextHandler();
        context.setContextPath("/ee8");
        services().forEach(service -> {
            var servlet = new org.eclipse.jetty.ee8.servlet.ServletHolder(service, new JavaxServlet(service));
            servlet.setAsyncSupported(true);
            context.addServlet(servlet, "/" + service);
        });
        return context.getCoreContextHandler();
    }

    public static void main(String[] arguments) throws Exception {
        Server server = arguments.length > 0 ? new Server(new QueuedThreadPool(Integer.parseInt(arguments[0]))) : new Server();
        ServerConnector connector = new ServerConnector(server, 1, 1);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        server.setHandler(new Handler.Sequence(new ContextHandlerCollection(jakarta(), javax()), new Core()));
        server.start();
        System.out.println("port " + connector.getLocalPort());
        server.join();
    }
}
