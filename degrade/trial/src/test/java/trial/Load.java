package trial;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Clients of one server on loopback, each asking again as soon as it is answered, until each path was answered
 * often enough: a machine that is busy with other things takes longer, and sees no less.
 */
final class Load {
    static {
        // Each client keeps its connection; by default only five do.
        System.setProperty("http.maxConnections", "100");
    }

    private static final long PATIENCE_NANOS = 240_000_000_000L;

    private final int port;
    private final List<Thread> threads = new ArrayList<>();
    private final Map<String, ConcurrentLinkedQueue<Long>> latencies = new ConcurrentHashMap<>();
    private final ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
    private final Map<String, Integer> wanted = new ConcurrentHashMap<>();
    private final AtomicBoolean stopped = new AtomicBoolean();
    private final long untilNanos = System.nanoTime() + PATIENCE_NANOS;

    Load(int port) {
        this.port = port;
    }

    /** One request: what was wrong with its answer, or null. */
    interface Ask {
        String failure() throws IOException;
    }

    /** So many clients, and so many answers that are wanted at least. */
    Load clients(int nr, String path, int nrAnswers) {
        return clients(nr, path, nrAnswers, () -> {
            int code = get(port, path).code;
            return code == 200 ? null : Integer.toString(code);
        });
    }

    /** The same of requests that are more than a path, under a name of their own. */
    Load clients(int nr, String name, int nrAnswers, Ask ask) {
        wanted.put(name, nrAnswers);
        latencies.put(name, new ConcurrentLinkedQueue<>());
        for (int at = 0; at < nr; at++) {
            Thread thread = new Thread(() -> ask(name, ask));
            threads.add(thread);
        }
        return this;
    }

    /** Runs in the background. */
    Thread start() {
        Thread thread = new Thread(() -> {
            try {
                run();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        });
        thread.start();
        return thread;
    }

    void stop() {
        stopped.set(true);
    }

    Load run() throws InterruptedException {
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        return this;
    }

    private boolean isDone() {
        return stopped.get()
                || System.nanoTime() - untilNanos >= 0
                || wanted.entrySet().stream().allMatch(path -> nr(path.getKey()) >= path.getValue());
    }

    private void ask(String name, Ask ask) {
        while (!isDone()) {
            long beganNanos = System.nanoTime();
            try {
                String failure = ask.failure();
                if (failure != null) {
                    failures.add(name + ": " + failure);
                }
            } catch (IOException thrown) {
                failures.add(name + ": " + thrown);
            }
            latencies.get(name).add(System.nanoTime() - beganNanos);
        }
    }

    record Answer(int code, String retryAfter, String body) {}

    static Answer get(int port, String path) throws IOException {
        var url = URI.create("http://localhost:" + port + path).toURL();
        var connection = (HttpURLConnection) url.openConnection(Proxy.NO_PROXY);
        connection.setReadTimeout(30_000);
        int code = connection.getResponseCode();
        try (InputStream body = code < 400 ? connection.getInputStream() : connection.getErrorStream()) {
            String text = body == null ? "" : new String(body.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
            return new Answer(code, connection.getHeaderField("Retry-After"), text);
        }
    }

    /** A quantile in milliseconds. */
    double quantileMillis(String path, double quantile) {
        long[] sorted = latencies.get(path).stream().mapToLong(nanos -> nanos).toArray();
        Arrays.sort(sorted);
        return sorted[(int) Math.min(sorted.length - 1, Math.floor(quantile * sorted.length))] / 1e6;
    }

    int nr(String path) {
        return latencies.get(path).size();
    }

    List<String> failures() {
        return List.copyOf(failures);
    }

    @Override
    public String toString() {
        Map<String, String> lines = new TreeMap<>();
        latencies.keySet().forEach(path -> lines.put(path, String.format(
                "%d, p50 %.1f ms, p95 %.1f ms", nr(path), quantileMillis(path, 0.5), quantileMillis(path, 0.95))));
        return lines.toString();
    }
}
