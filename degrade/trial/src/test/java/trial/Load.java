package trial;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Clients of one server on loopback, each asking again as soon as it is answered, until each path was answered
 * often enough: a machine that is busy with other things takes longer, and sees no less.
 */
final class Load {
    private static final long PATIENCE_NANOS = 240_000_000_000L;

    private final int port;
    private final List<Thread> threads = new ArrayList<>();
    /** Of a kind that knows how many it has: that is asked before each request. */
    private final Map<String, LinkedBlockingQueue<Long>> latencies = new ConcurrentHashMap<>();
    private final ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
    private final Map<String, Integer> wanted = new ConcurrentHashMap<>();
    private final AtomicBoolean stopped = new AtomicBoolean();
    private final long untilNanos = System.nanoTime() + PATIENCE_NANOS;

    Load(int port) {
        this.port = port;
    }

    /** One request: what was wrong with its answer, or null. */
    interface Ask {
        String failure(Connection connection) throws IOException;
    }

    /** So many clients, and so many answers that are wanted at least. */
    Load clients(int nr, String path, int nrAnswers) {
        return clients(nr, path, nrAnswers, connection -> {
            int code = connection.get(path).code();
            return code == 200 ? null : Integer.toString(code);
        });
    }

    /** The same of requests that are more than a path, under a name of their own. */
    Load clients(int nr, String name, int nrAnswers, Ask ask) {
        wanted.put(name, nrAnswers);
        latencies.put(name, new LinkedBlockingQueue<>());
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
        try (Connection connection = new Connection(port)) {
            while (!isDone()) {
                long beganNanos = System.nanoTime();
                askOnce(name, ask, connection);
                latencies.get(name).add(System.nanoTime() - beganNanos);
            }
        } catch (IOException thrown) {
            failures.add(name + ": " + thrown);
        }
    }

    private void askOnce(String name, Ask ask, Connection connection) {
        try {
            String failure = ask.failure(connection);
            if (failure != null) {
                failures.add(name + ": " + failure);
            }
        } catch (IOException thrown) {
            failures.add(name + ": " + thrown);
        }
    }

    static Connection.Answer get(int port, String path) throws IOException {
        try (Connection connection = new Connection(port)) {
            return connection.get(path);
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
