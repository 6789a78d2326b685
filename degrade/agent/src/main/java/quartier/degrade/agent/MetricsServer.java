package quartier.degrade.agent;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Serves the page, its data and the metrics on loopback. Nothing can be changed from there. */
final class MetricsServer implements AutoCloseable {
    private static final String METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    private static final String TEXT = "text/plain; charset=utf-8";
    private static final String JSON = "application/json";
    private static final String NO_SUCH = "there is: / /view.json /history.json /metrics /healthz\n";
    private static final Set<String> NAMES = Set.of("localhost", "127.0.0.1", "[::1]");

    private final HttpServer server;
    private final ExecutorService threads = Executors.newSingleThreadExecutor(work -> new OwnThread(work, "metrics"));
    private final OpenMetrics metrics;
    private final History history;
    private final byte[] page;

    private record Answer(int code, String type, byte[] body) {
        static Answer of(int code, String type, String text) {
            return new Answer(code, type, text.getBytes(StandardCharsets.UTF_8));
        }
    }

    MetricsServer(int port, OpenMetrics metrics, History history) throws IOException {
        this.metrics = metrics;
        this.history = history;
        try (InputStream resource = MetricsServer.class.getResourceAsStream("page.html")) {
            if (resource == null) {
                throw new IOException("the agent's jar is incomplete: page.html is not in it; build it anew");
            }
            page = resource.readAllBytes();
        }
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.setExecutor(threads);
        server.createContext("/", this::answer);
        startAsDaemon();
    }

    /** The server's own thread is what its starter is. One that is no daemon would keep a program from ending. */
    private void startAsDaemon() throws IOException {
        Thread starter = new OwnThread(server::start, "starter");
        starter.start();
        try {
            starter.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", interrupted);
        }
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            Answer answer = answer(exchange.getRequestMethod(), exchange.getRequestHeaders().getFirst("Host"),
                    exchange.getRequestURI().getPath());
            Headers headers = exchange.getResponseHeaders();
            headers.set("Content-Type", answer.type);
            headers.set("Cache-Control", "no-store");
            headers.set("X-Content-Type-Options", "nosniff");
            headers.set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; "
                    + "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                    + "frame-ancestors 'none'");
            exchange.sendResponseHeaders(answer.code, answer.body.length);
            exchange.getResponseBody().write(answer.body);
        }
    }

    private Answer answer(String method, String host, String path) {
        if (!isThisMachine(host)) {
            // A page from elsewhere that has its name point to this machine (DNS rebinding) must not read this one.
            return Answer.of(403, TEXT, "ask for localhost, 127.0.0.1 or [::1]: other names are not answered\n");
        }
        if (!method.equals("GET")) {
            return Answer.of(405, TEXT, "there is only GET\n");
        }
        return switch (path) {
            case "/" -> new Answer(200, "text/html; charset=utf-8", page);
            case "/view.json" -> Answer.of(200, JSON, history.latest());
            case "/history.json" -> Answer.of(200, JSON, history.all());
            case "/metrics" -> Answer.of(200, METRICS, metrics.text());
            case "/healthz" -> Answer.of(200, TEXT, "ok\n");
            default -> Answer.of(404, TEXT, NO_SUCH);
        };
    }

    static boolean isThisMachine(String host) {
        return host != null && NAMES.contains(host.replaceFirst(":\\d+$", ""));
    }

    private String hostAndPort() {
        InetSocketAddress address = server.getAddress();
        return address.getAddress().getHostAddress() + ":" + address.getPort();
    }

    String address() {
        return hostAndPort() + "/metrics";
    }

    String page() {
        return "http://" + hostAndPort() + "/";
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
