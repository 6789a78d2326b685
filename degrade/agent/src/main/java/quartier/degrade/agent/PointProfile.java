package quartier.degrade.agent;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
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
import quartier.degrade.weave.PointChoice.Window;

/**
 * Watches, for some seconds in which requests run, which points threads pass in about a millisecond of their CPU time.
 *
 * <p>By counts and not by stacks: a stack says where a thread is, not how often it comes by. Code that is counted can be ten
 * times slower. So it is counted for a fifth of the time only, and what counting took is no time of the program's.
 */
final class PointProfile {
    private static final long LOOK_NANOS = 700_000;
    private static final long IDLE_LOOK_NANOS = 20_000_000;
    private static final long PERIOD_NANOS = 500_000_000;
    private static final long BURST_NANOS = 100_000_000;
    /** A window that is shorter says little; one that is longer says that this thread came late. */
    private static final long WINDOW_NANOS_MIN = 300_000;
    private static final long WINDOW_NANOS_MAX = 2_000_000;
    private static final int WINDOWS_MIN = 100;
    private static final int WINDOWS_MAX = 20_000;
    /** Counting costs. A server whose requests give no windows (virtual threads have no CPU clock) keeps the rule's points. */
    private static final long GIVE_UP_NANOS = 120_000_000_000L;
    private static final String TOO_LITTLE =
            "requests took too little CPU time that can be counted (virtual threads have no clock of it)";
    /** What a point takes at least, counted or not. */
    private static final double PASS_NANOS_MIN = 1;
    /** Most code is counted faster than that which is nothing but calls. */
    private static final double COST_PART = 0.7;

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final OwnThread thread = new OwnThread(this::run, "points");
    private final long wantedNanos;
    /** What an earlier profile chose; null for none. */
    private final PointChoice before;
    private final Consumer<PointChoice> chosen;
    private final Consumer<String> failed;
    private final Map<Tally.Counts, Mark> marks = new HashMap<>();
    private final Map<Tally.Counts, Seen> burst = new HashMap<>();
    private final List<List<Window>> requests = new ArrayList<>();
    private int nrWindows;
    private long[] nrPassed = {};
    private long cpuNanos;
    private double costNanos;

    /** A thread at a moment. */
    private record Seen(long cpuNanos, long[] counts) {}

    /** Where the latest window of a request began, and those before it. */
    private record Mark(long request, Seen from, List<Window> windows) {}

    /**
     * @param chosen told what was chosen
     * @param failed told why nothing was
     */
    PointProfile(long wantedNanos, PointChoice before, Consumer<PointChoice> chosen, Consumer<String> failed) {
        this.wantedNanos = wantedNanos;
        this.before = before;
        this.chosen = chosen;
        this.failed = failed;
    }

    void start() {
        Tally.start();
        thread.start();
    }

    void stop() {
        thread.tellToEnd();
    }

    private void run() {
        PointChoice choice = null;
        String why = TOO_LITTLE;
        try {
            choice = watch() ? new PointChoice(before, nrPassed, cpuNanos, requests) : null;
        } catch (RuntimeException | LinkageError thrown) {
            why = "something of ours went wrong (" + thrown + ")";
        } finally {
            Tally.stop();
        }
        if (thread.isToldToEnd()) {
            return;
        }
        if (choice == null) {
            failed.accept(why);
        } else {
            chosen.accept(choice);
        }
    }

    /** Until enough was seen; begins some time after the first request, when what is hot has been compiled. */
    private boolean watch() {
        while (!thread.isToldToEnd() && Tally.all().isEmpty()) {
            LockSupport.parkNanos(this, IDLE_LOOK_NANOS);
        }
        long beganNanos = System.nanoTime() + wantedNanos;
        while (!thread.isToldToEnd() && System.nanoTime() - beganNanos < 0) {
            LockSupport.parkNanos(this, IDLE_LOOK_NANOS);
        }
        costNanos = COST_PART * Tally.costNanos();
        while (!thread.isToldToEnd()) {
            long elapsedNanos = System.nanoTime() - beganNanos;
            if (elapsedNanos >= wantedNanos && nrWindows >= WINDOWS_MIN || nrWindows >= WINDOWS_MAX) {
                return true;
            }
            if (elapsedNanos >= Math.max(GIVE_UP_NANOS, 2 * wantedNanos)) {
                return false;
            }
            count();
            LockSupport.parkNanos(this, PERIOD_NANOS - BURST_NANOS);
        }
        return false;
    }

    /** One burst. */
    private void count() {
        Tally.count(true);
        long beganNanos = System.nanoTime();
        while (!thread.isToldToEnd() && System.nanoTime() - beganNanos < BURST_NANOS) {
            Collection<Tally.Counts> all = Tally.all();
            all.forEach(this::look);
            LockSupport.parkNanos(this, LOOK_NANOS);
        }
        burst.forEach((counts, from) -> add(from, seen(counts)));
        Tally.count(false);
        burst.clear();
        marks.clear();
    }

    private Seen seen(Tally.Counts counts) {
        boolean virtual = VirtualThreads.isVirtual(counts.thread);
        return new Seen(virtual ? -1 : threads.getThreadCpuTime(counts.thread.getId()), counts.copy());
    }

    private void look(Tally.Counts counts) {
        long request = counts.request();
        Seen now = seen(counts);
        if (now.cpuNanos < 0) {
            return;
        }
        burst.putIfAbsent(counts, now);
        if (request == 0) {
            marks.remove(counts);
            return;
        }
        Mark mark = marks.get(counts);
        if (mark == null || mark.request != request) {
            marks.put(counts, new Mark(request, now, new ArrayList<>()));
            return;
        }
        long nanos = nanos(mark.from, now);
        if (nanos < WINDOW_NANOS_MIN) {
            return;
        }
        if (nanos <= WINDOW_NANOS_MAX) {
            if (mark.windows.isEmpty()) {
                requests.add(mark.windows);
            }
            mark.windows.add(new Window(passed(mark.from, now), nanos));
            nrWindows++;
        }
        marks.put(counts, new Mark(request, now, mark.windows));
    }

    /** CPU time of the program's own. */
    private long nanos(Seen from, Seen to) {
        long nr = Arrays.stream(to.counts).sum() - Arrays.stream(from.counts).sum();
        return (long) Math.max(to.cpuNanos - from.cpuNanos - costNanos * nr, PASS_NANOS_MIN * nr);
    }

    private static long nr(Seen from, Seen to, int id) {
        return to.counts[id] - (id < from.counts.length ? from.counts[id] : 0);
    }

    private static BitSet passed(Seen from, Seen to) {
        BitSet passed = new BitSet(to.counts.length);
        for (int id = 0; id < to.counts.length; id++) {
            passed.set(id, nr(from, to, id) > 0);
        }
        return passed;
    }

    private void add(Seen from, Seen to) {
        if (to.cpuNanos < from.cpuNanos) {
            // The thread has ended.
            return;
        }
        if (nrPassed.length < to.counts.length) {
            nrPassed = Arrays.copyOf(nrPassed, to.counts.length);
        }
        for (int id = 0; id < to.counts.length; id++) {
            nrPassed[id] += nr(from, to, id);
        }
        cpuNanos += nanos(from, to);
    }
}
