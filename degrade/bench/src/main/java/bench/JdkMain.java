package bench;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import trial.Services;

/** The services on the JDK's own server. */
final class JdkMain {
    /** As many as there may be requests: more clients would wait outside of the server, where nobody chooses. */
    private static final int NR_THREADS = 200;

    private JdkMain() {}

    public static void main(String[] arguments) throws Exception {
        // Head and body of an answer are two packets; without this the second waits 40 ms for the first to be confirmed.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 100);
        server.setExecutor(Executors.newFixedThreadPool(NR_THREADS));
        serve(server, "/light", Services::light);
        serve(server, "/heavy", Services::heavy);
        server.start();
        System.out.println("port " + server.getAddress().getPort());
    }

    private static void serve(HttpServer server, String path, Supplier<String> service) {
        server.createContext(path, exchange -> {
            try (exchange) {
                byte[] answer = service.get().getBytes(StandardCharsets.UTF_8);
                exchange.sendResponseHeaders(200, answer.length);
                exchange.getResponseBody().write(answer);
            }
        });
    }
}
