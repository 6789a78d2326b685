package quartier.degrade.agent;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import quartier.degrade.core.VirtualThreads;
import quartier.degrade.gate.Tally;
import quartier.degrade.weave.PointChoice;

/**
 * Watches, for some seconds in which requests run, which points threads pass in about a millisecond of their CPU time.
 *
 * <p>By counts and not by stacks: a stack says where a thread is, not how often it comes by.
 */
final class PointProfile {
    private static final long LOOK_NANOS = 700_000;
    private static final long IDLE_LOOK_NANOS = 20_000_000;
    /** A window that is shorter says little; one that is longer says that this thread came late. */
    private static final long WINDOW_NANOS_MIN = 300_000;
    private static final long WINDOW_NANOS_MAX = 2_000_000;
    private static final int WINDOWS_MIN = 100;
    private static final int WINDOWS_MAX = 20_000;
    /** Counting costs. A server whose requests give no windows (virtual threads have no CPU clock) keeps the rule's points. */
    private static final long GIVE_UP_NANOS = 120_000_000_000L;

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final Thread thread = new OwnThread(this::run, "points");
    private final long wantedNanos;
    private final Consumer<PointChoice> done;
    private final Map<Tally.Counts, Mark> marks = new HashMap<>();
    private final List<BitSet> windows = new ArrayList<>();
    private long[] nrPassed = {};
    private long cpuNanos;
    private volatile boolean stopped;

    /** Where a thread was when it was last looked at. */
    private record Mark(long request, long cpuNanos, long[] counts) {}

    /** @param done told what was chosen, or null if too little was seen */
    PointProfile(long wantedNanos, Consumer<PointChoice> done) {
        this.wantedNanos = wantedNanos;
        this.done = done;
    }

    void start() {
        Tally.start();
        thread.start();
    }

    void stop() {
        stopped = true;
        LockSupport.unpark(thread);
    }

    private void run() {
        try {
            boolean enough = watch();
            Tally.stop();
            if (!stopped) {
                done.accept(enough ? new PointChoice(nrPassed, cpuNanos, windows) : null);
            }
        } catch (RuntimeException | LinkageError thrown) {
            Say.say("yield points could not be chosen, so they are those of the rule: " + thrown);
            done.accept(null);
        } finally {
            Tally.stop();
        }
    }

    /** Until enough was seen; begins with the first request. */
    private boolean watch() {
        long beganNanos = 0;
        while (!stopped) {
            Collection<Tally.Counts> all = Tally.all();
            all.forEach(this::look);
            long nowNanos = System.nanoTime();
            if (!all.isEmpty() && beganNanos == 0) {
                beganNanos = nowNanos;
            }
            long elapsedNanos = beganNanos == 0 ? 0 : nowNanos - beganNanos;
            if (elapsedNanos >= wantedNanos && windows.size() >= WINDOWS_MIN || windows.size() >= WINDOWS_MAX) {
                return true;
            }
            if (elapsedNanos >= Math.max(GIVE_UP_NANOS, 2 * wantedNanos)) {
                return false;
            }
            LockSupport.parkNanos(this, all.isEmpty() ? IDLE_LOOK_NANOS : LOOK_NANOS);
        }
        return false;
    }

    private void look(Tally.Counts counts) {
        long request = counts.request();
        if (request == 0) {
            marks.remove(counts);
            return;
        }
        long cpu = VirtualThreads.isVirtual(counts.thread) ? -1 : threads.getThreadCpuTime(counts.thread.getId());
        Mark mark = marks.get(counts);
        boolean same = mark != null && mark.request == request;
        if (cpu < 0 || same && cpu - mark.cpuNanos < WINDOW_NANOS_MIN) {
            return;
        }
        long[] now = counts.copy();
        if (same && cpu - mark.cpuNanos <= WINDOW_NANOS_MAX) {
            window(mark.counts, now);
            cpuNanos += cpu - mark.cpuNanos;
        }
        marks.put(counts, new Mark(request, cpu, now));
    }

    private void window(long[] before, long[] now) {
        if (nrPassed.length < now.length) {
            nrPassed = java.util.Arrays.copyOf(nrPassed, now.length);
        }
        BitSet window = new BitSet(now.length);
        for (int id = 0; id < now.length; id++) {
            long nr = now[id] - (id < before.length ? before[id] : 0);
            if (nr > 0) {
                nrPassed[id] += nr;
                window.set(id);
            }
        }
        windows.add(window);
    }
}
