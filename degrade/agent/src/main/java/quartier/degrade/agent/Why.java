package quartier.degrade.agent;

import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import quartier.degrade.config.ConfigException;
import quartier.degrade.why.Breakdown.Row;
import quartier.degrade.why.Recorder;
import quartier.degrade.why.Recorder.Recorded;
import quartier.degrade.why.Recorder.Served;
import quartier.degrade.why.Watch;

/** Says where the time of requests goes, with what is active here, or by coming in for as long as that takes. */
final class Why {
    private static final int FORMAT = 1;
    /** An answer has room for so many, and they are enough for quantiles. */
    private static final int SERVED_MAX = 20_000;
    private static final AtomicBoolean BUSY = new AtomicBoolean();

    private Why() {}

    /**
     * @param asked for how many seconds, and which file names the classes if no agent is active
     * @param traced whether somebody watches the kernel's scheduler meanwhile, and is to know which thread served whom when
     */
    static String answer(String asked, boolean traced, Instrumentation instrumentation) throws IOException, ConfigException {
        String[] words = asked.split(" ", 2);
        double seconds = Double.parseDouble(words[0]);
        Path file = words.length > 1 ? Path.of(words[1]) : null;
        if (!Recorder.isThere()) {
            throw new IllegalStateException("this JVM has no flight recorder (module jdk.jfr): use one that has");
        }
        if (!BUSY.compareAndSet(false, true)) {
            throw new IllegalStateException("somebody else asks why in this JVM just now: try again later");
        }
        try {
            return Json.of(look(seconds, file, traced, instrumentation));
        } finally {
            BUSY.set(false);
        }
    }

    private static Map<String, Object> look(double seconds, Path file, boolean traced, Instrumentation instrumentation)
            throws IOException, ConfigException {
        Installation active = Installation.active();
        boolean isGuest = active == null;
        if (isGuest) {
            Installation.start(file, Installation.read(file).onlySeen(), instrumentation);
            active = Installation.active();
        } else if (file != null) {
            throw new IllegalStateException(
                    "an agent is active in this JVM, and its own file names the classes: ask without a file");
        }
        try {
            return look(seconds, active, traced, isGuest);
        } finally {
            // Somebody may have taken it out meanwhile.
            if (isGuest && Installation.active() == active) {
                Installation.stop();
            }
        }
    }

    private static Map<String, Object> look(double seconds, Installation active, boolean traced, boolean isGuest)
            throws IOException {
        Watch watch = new Watch();
        DispatcherHook hook = active.hook();
        Recorded recorded = Recorder.record(() -> {
            long untilNanos = System.nanoTime() + Math.round(seconds * TimeUnit.SECONDS.toNanos(1));
            hook.setWatch(watch);
            for (long left = untilNanos - System.nanoTime(); left > 0; left = untilNanos - System.nanoTime()) {
                LockSupport.parkNanos(Why.class, left);
            }
            hook.setWatch(null);
        });
        long beforeEntryNanos = active.beforeEntryNanos();
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("format", FORMAT);
        answer.put("pid", ProcessHandle.current().pid());
        answer.put("seconds", seconds);
        answer.put("agent", isGuest ? "only to look" : "active");
        answer.put("threads", watch.kernelThreads());
        answer.put("before_entry_ms", Json.millis(beforeEntryNanos));
        answer.put("classes", recorded.rows().stream().map(Why::workClass).toList());
        if (traced) {
            answer.put("served", served(recorded.served()));
        }
        return answer;
    }

    /** By class, {@code [thread, from, to]} of requests; of very many, each second, third or so. */
    private static Map<String, List<List<Long>>> served(List<Served> all) {
        int step = 1 + all.size() / SERVED_MAX;
        Map<String, List<List<Long>>> byClass = new LinkedHashMap<>();
        for (int at = 0; at < all.size(); at += step) {
            Served each = all.get(at);
            byClass.computeIfAbsent(each.className(), fresh -> new ArrayList<>())
                    .add(List.of(each.kernelThread(), each.fromNanos(), each.toNanos()));
        }
        return byClass;
    }

    /** Means for each request. */
    private static Map<String, Object> workClass(Row row) {
        double nr = row.nrRequests();
        boolean known = row.isKnown();
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("name", row.className());
        map.put("requests", row.nrRequests());
        map.put("total_ms", row.wallNanos() / 1e6 / nr);
        map.put("cpu_ms", known ? row.cpuNanos() / 1e6 / nr : null);
        map.put("run_queue_ms", known ? row.runQueueNanos() / 1e6 / nr : null);
        map.put("lock_ms", row.lockNanos() / 1e6 / nr);
        map.put("io_ms", row.ioNanos() / 1e6 / nr);
        map.put("wait_ms", row.waitNanos() / 1e6 / nr);
        map.put("yield_ms", row.yieldNanos() / 1e6 / nr);
        map.put("other_ms", known ? row.otherNanos() / 1e6 / nr : null);
        boolean hasRun = known && row.nrSlices() > 0;
        map.put("slices", known ? row.nrSlices() / nr : null);
        map.put("slice_ms", hasRun ? row.cpuNanos() / 1e6 / row.nrSlices() : null);
        map.put("lock_waits", row.nrLockWaits() / nr);
        map.put("lock_wait_ms", row.nrLockWaits() > 0 ? row.lockNanos() / 1e6 / row.nrLockWaits() : null);
        map.put("cpu_wait_ms", hasRun ? row.runQueueNanos() / 1e6 / row.nrSlices() : null);
        return map;
    }
}
