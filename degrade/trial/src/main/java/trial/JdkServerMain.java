package trial;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/**
 * The services on the JDK's own server; with {@code virtual}, on virtual threads. Whoever asks for {@code /shutdown} has all of its threads
 * interrupted, and others serve from then on. Prints its port.
 */
public final class JdkServerMain {
    private static final AtomicReference<ExecutorService> POOL = new AtomicReference<>(newPool());

    private JdkServerMain() {}

    public static void main(String[] arguments) throws Exception {
        // Head and body of an answer are two packets; without this the second waits 40 ms for the first to be confirmed.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 100);
        server.setExecutor(arguments.length > 0 ? virtualThreads() : work -> POOL.get().execute(work));
        for (String service : Services.ALL) {
            serve(server, service, () -> Services.run(service));
        }
        serve(server, "shutdown", JdkServerMain::replacePool);
        server.start();
        System.out.println("port " + server.getAddress().getPort());
    }

    /** Newer than the JDK that this is compiled for. */
    private static Executor virtualThreads() throws ReflectiveOperationException {
        return (Executor) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
    }

    private static ExecutorService newPool() {
        return Executors.newFixedThreadPool(64);
    }

    private static String replacePool() {
        List<Runnable> neverBegun = POOL.getAndSet(newPool()).shutdownNow();
        neverBegun.forEach(POOL.get()::execute);
        // Its own thread is one of these, and is to answer.
        Thread.interrupted();
        return "shut down";
    }

    private static void serve(HttpServer server, String path, Supplier<String> service) {
        server.createContext("/" + path, exchange -> {
            try (exchange) {
                byte[] answer = service.get().getBytes(StandardCharsets.UTF_8);
                exchange.sendResponseHeaders(200, answer.length);
                exchange.getResponseBody().write(answer);
            }
        });
    }
}
