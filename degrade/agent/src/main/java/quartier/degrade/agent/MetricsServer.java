package quartier.degrade.agent;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Serves the metrics on loopback. */
final class MetricsServer implements AutoCloseable {
    private static final String TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    private final HttpServer server;
    private final ExecutorService threads = Executors.newSingleThreadExecutor(work -> new OwnThread(work, "metrics"));

    MetricsServer(int port, OpenMetrics metrics) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.setExecutor(threads);
        server.createContext("/metrics", exchange -> answer(exchange, metrics.text()));
        server.start();
    }

    private static void answer(HttpExchange exchange, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        try (exchange) {
            exchange.getResponseHeaders().set("Content-Type", TYPE);
            exchange.sendResponseHeaders(200, bytes.length);
            exchange.getResponseBody().write(bytes);
        }
    }

    String address() {
        InetSocketAddress address = server.getAddress();
        return address.getAddress().getHostAddress() + ":" + address.getPort() + "/metrics";
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
