package trial;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Clients of one server on loopback, each asking again as soon as it is answered, for a given time. */
final class Load {
    private final int port;
    private final List<Thread> threads = new ArrayList<>();
    private final Map<String, ConcurrentLinkedQueue<Long>> latencies = new ConcurrentHashMap<>();
    private final ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
    private final long untilNanos;
    /** What happened before this is warming up. */
    private final long fromNanos;

    Load(int port, long warmUpMillis, long millis) {
        this.port = port;
        this.fromNanos = System.nanoTime() + warmUpMillis * 1_000_000;
        this.untilNanos = fromNanos + millis * 1_000_000;
    }

    Load clients(int nr, String path) {
        latencies.put(path, new ConcurrentLinkedQueue<>());
        for (int at = 0; at < nr; at++) {
            Thread thread = new Thread(() -> ask(path));
            threads.add(thread);
        }
        return this;
    }

    Load run() throws InterruptedException {
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        return this;
    }

    private void ask(String path) {
        while (System.nanoTime() - untilNanos < 0) {
            long beganNanos = System.nanoTime();
            try {
                Answer answer = get(port, path);
                if (answer.code != 200) {
                    failures.add(path + ": " + answer.code);
                }
            } catch (IOException thrown) {
                failures.add(path + ": " + thrown);
            }
            long endedNanos = System.nanoTime();
            if (beganNanos - fromNanos >= 0) {
                latencies.get(path).add(endedNanos - beganNanos);
            }
        }
    }

    record Answer(int code, String retryAfter, String body) {}

    static Answer get(int port, String path) throws IOException {
        var connection = (HttpURLConnection) URI.create("http://127.0.0.1:" + port + path).toURL().openConnection();
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
