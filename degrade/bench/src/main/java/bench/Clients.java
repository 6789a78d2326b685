package bench;

import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
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
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.random.RandomGenerator;

/**
 * Clients of one server for a time, counted after they have warmed it up. Closed: each asks again as soon as it is answered. Open:
 * requests come by a clock, whether the server keeps up or not, and their latency counts from when they were to come.
 */
final class Clients {
    static {
        System.setProperty("http.maxConnections", "600");
    }

    /** Requests of an open loop that may be under way at once; more are counted as never sent. */
    private static final int UNDER_WAY_MAX = 500;

    private final int port;
    private final long countsFromNanos;
    private final long endsNanos;
    private final List<Thread> threads = new ArrayList<>();
    private final Map<String, Answers> answers = new ConcurrentHashMap<>();
    private final ExecutorService senders = new ThreadPoolExecutor(
            0, UNDER_WAY_MAX, 10, TimeUnit.SECONDS, new SynchronousQueue<>());

    /** What one kind of request got, of those that began while it was counted. */
    static final class Answers {
        private final ConcurrentLinkedQueue<Long> nanos = new ConcurrentLinkedQueue<>();
        private final LinkedBlockingQueue<Integer> refused = new LinkedBlockingQueue<>();
        private final ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();

        /** Milliseconds; of no answer there is none. */
        double quantileMillis(double quantile) {
            long[] sorted = nanos.stream().mapToLong(each -> each).toArray();
            Arrays.sort(sorted);
            int at = (int) Math.min(sorted.length - 1, Math.floor(quantile * sorted.length));
            return sorted.length == 0 ? Double.NaN : sorted[at] / 1e6;
        }

        int nrAnswered() {
            return nanos.size();
        }

        /** By a status that says so: 429 or 503. */
        int nrRefused() {
            return refused.size();
        }

        List<String> failures() {
            return List.copyOf(failures);
        }
    }

    Clients(int port, double warmSeconds, double countedSeconds) {
        this.port = port;
        countsFromNanos = System.nanoTime() + (long) (1e9 * warmSeconds);
        endsNanos = countsFromNanos + (long) (1e9 * countedSeconds);
    }

    /** So many, each waiting for its answer. */
    Clients closed(int nr, String path) {
        Answers to = answersOf(path);
        for (int at = 0; at < nr; at++) {
            threads.add(new Thread(() -> {
                while (System.nanoTime() < endsNanos) {
                    ask(path, System.nanoTime(), to);
                }
            }));
        }
        return this;
    }

    /** So many each second, at times that know nothing of each other. */
    Clients open(double perSecond, String path, RandomGenerator random) {
        Answers to = answersOf(path);
        threads.add(new Thread(() -> {
            double next = System.nanoTime();
            while (next < endsNanos) {
                next += -Math.log(1 - random.nextDouble()) / perSecond * 1e9;
                long intended = (long) next;
                for (long now = System.nanoTime(); now < intended; now = System.nanoTime()) {
                    LockSupport.parkNanos(intended - now);
                }
                try {
                    senders.execute(() -> ask(path, intended, to));
                } catch (java.util.concurrent.RejectedExecutionException tooMany) {
                    note(intended, to, "never sent: " + UNDER_WAY_MAX + " are under way");
                }
            }
        }));
        return this;
    }

    /** What all clients have taken so far: they are all that this JVM does. */
    static double cpuSeconds() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }

    private Answers answersOf(String path) {
        return answers.computeIfAbsent(path, any -> new Answers());
    }

    private void ask(String path, long intendedNanos, Answers to) {
        try {
            int status = get(path);
            if (status == 429 || status == 503) {
                if (isCounted(intendedNanos)) {
                    to.refused.add(status);
                }
                // Whoever is refused would not be back at once; a loop without a pause would only count refusals.
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
            } else if (status != 200) {
                note(intendedNanos, to, path + ": " + status);
            } else if (isCounted(intendedNanos)) {
                to.nanos.add(System.nanoTime() - intendedNanos);
            }
        } catch (IOException thrown) {
            note(intendedNanos, to, path + ": " + thrown);
        }
    }

    /** The status of the answer, all of which was read. */
    private int get(String path) throws IOException {
        var url = URI.create("http://localhost:" + port + path).toURL();
        var connection = (HttpURLConnection) url.openConnection(Proxy.NO_PROXY);
        connection.setReadTimeout(60_000);
        int status = connection.getResponseCode();
        try (InputStream body = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
            if (body != null) {
                body.readAllBytes();
            }
        }
        return status;
    }

    private void note(long intendedNanos, Answers to, String failure) {
        if (isCounted(intendedNanos)) {
            to.failures.add(failure);
        }
    }

    private boolean isCounted(long nanos) {
        return nanos >= countsFromNanos && nanos < endsNanos;
    }

    /** Until all of them have ended; {@code counting} is run when counting begins and when it ends. */
    Map<String, Answers> run(Runnable counting) throws InterruptedException {
        threads.forEach(Thread::start);
        sleepUntil(countsFromNanos);
        counting.run();
        sleepUntil(endsNanos);
        counting.run();
        for (Thread thread : threads) {
            thread.join();
        }
        senders.shutdown();
        if (!senders.awaitTermination(120, TimeUnit.SECONDS)) {
            throw new IllegalStateException("requests are under way after 120 s");
        }
        return new TreeMap<>(answers);
    }

    private static void sleepUntil(long nanos) {
        for (long now = System.nanoTime(); now < nanos; now = System.nanoTime()) {
            LockSupport.parkNanos(nanos - now);
        }
    }
}
