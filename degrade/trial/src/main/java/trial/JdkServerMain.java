package trial;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/** The services on the JDK's own server; with {@code virtual}, on virtual threads. Prints its port. */
public final class JdkServerMain {
    private JdkServerMain() {}

    public static void main(String[] arguments) throws Exception {
        // Head and body of an answer are two packets; without this the second waits 40 ms for the first to be confirmed.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 100);
        server.setExecutor(arguments.length > 0 ? virtualThreads() : Executors.newFixedThreadPool(64));
        for (String service : Services.ALL) {
            serve(server, service);
        }
        server.start();
        System.out.println("port " + server.getAddress().getPort());
    }

    /** Newer than the JDK that this is compiled for. */
    private static Executor virtualThreads() throws ReflectiveOperationException {
        return (Executor) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
    }

    private static void serve(HttpServer server, String service) {
        server.createContext("/" + service, exchange -> {
            try (exchange) {
                byte[] answer = Services.run(service).getBytes(StandardCharsets.UTF_8);
                exchange.sendResponseHeaders(200, answer.length);
                exchange.getResponseBody().write(answer);
            }
        });
    }
}
