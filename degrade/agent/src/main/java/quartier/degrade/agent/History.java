package quartier.degrade.agent;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/** Looks once a second, and keeps what a page that is opened later wants to draw: ten minutes. */
final class History {
    static final String STATUS = "quartier.degrade.status";
    private static final long LOOK_NANOS = 1_000_000_000;
    private static final int KEPT = 600;
    private static final List<String> DRAWN = List.of(
            "name", "answered_per_s", "rejected_per_s", "present", "running", "waiting", "p50_ms", "p95_ms", "p99_ms",
            "target_ms");

    private final View view;
    private final OwnThread thread = new OwnThread(this::run, "history");
    private final Deque<String> samples = new ArrayDeque<>();
    private volatile String latest = "{}";

    History(View view) {
        this.view = view;
    }

    /** There is something to see when this returns. */
    void start() {
        look();
        thread.start();
    }

    void stop() {
        thread.awaitEnd();
        System.clearProperty(STATUS);
    }

    private void run() {
        long nextNanos = System.nanoTime() + LOOK_NANOS;
        while (!thread.isToldToEnd()) {
            long leftNanos = nextNanos - System.nanoTime();
            if (leftNanos > 0) {
                LockSupport.parkNanos(this, leftNanos);
            } else {
                nextNanos = System.nanoTime() + LOOK_NANOS;
                look();
            }
        }
    }

    /** Also for whoever has changed something, and shows it. */
    void look() {
        Map<String, Object> now = view.now();
        latest = Json.of(now);
        if (!thread.isToldToEnd()) {
            // Whoever may attach reads this, wherever the JVM is.
            System.setProperty(STATUS, latest);
        }
        String sample = Json.of(drawn(now));
        synchronized (samples) {
            samples.addLast(sample);
            if (samples.size() > KEPT) {
                samples.removeFirst();
            }
        }
    }

    private static Map<String, Object> drawn(Map<String, Object> now) {
        List<Map<String, Object>> classes = new ArrayList<>();
        for (Object each : (List<?>) now.get("classes")) {
            Map<String, Object> kept = new LinkedHashMap<>();
            DRAWN.forEach(key -> kept.put(key, ((Map<?, ?>) each).get(key)));
            classes.add(kept);
        }
        Map<String, Object> sample = new LinkedHashMap<>();
        sample.put("unix_ms", now.get("unix_ms"));
        sample.put("load", now.get("aim") instanceof Map<?, ?> aim ? aim.get("load") : null);
        sample.put("classes", classes);
        return sample;
    }

    /** How it was when it was last looked at, less than two seconds ago. */
    String latest() {
        return latest;
    }

    /** What was seen, the oldest first. */
    String all() {
        synchronized (samples) {
            return "[" + String.join(",", samples) + "]";
        }
    }
}
