package quartier.degrade.core;

/**
 * What a request waits for CPUs before the server's entry. The agent sees nothing of it: first the thread that looks after connections
 * has to wake up, then the one that serves. How late a woken thread runs on this machine now, the controller knows of itself.
 * Under the dispatcher's lock.
 */
final class WakeUps {
    private static final int KEPT = 64;
    /** In Tomcat, Jetty and the JDK's server. */
    private static final int NR_BEFORE_ENTRY = 2;
    /** So that two in a row are no neighbours in time; it has no factor in common with those kept. */
    private static final int STRIDE = 27;

    /** Whoever is later did not wait for a CPU: all have stood still, or the clock has jumped. */
    private static final long LATE_MAX_NANOS = Dispatcher.PULSE_MAX_NANOS;
    /** What is longer ago was of another time. */
    private static final long RECENT_NANOS = 1_000_000_000;

    private final long[] lateNanos = new long[KEPT];
    private final long[] addedNanos = new long[KEPT];
    private int oldest;
    private int nr;
    private int at;
    /** Timers are a little late in any case. */
    private long leastNanos;

    void add(long nanos, long nowNanos) {
        if (nanos < 0 || nanos > LATE_MAX_NANOS) {
            return;
        }
        while (nr == KEPT || nr > 0 && nowNanos - addedNanos[oldest] > RECENT_NANOS) {
            oldest = (oldest + 1) % KEPT;
            nr--;
        }
        int newest = (oldest + nr++) % KEPT;
        lateNanos[newest] = nanos;
        addedNanos[newest] = nowNanos;
        leastNanos = Long.MAX_VALUE;
        for (int kept = 0; kept < nr; kept++) {
            leastNanos = Math.min(leastNanos, late(kept));
        }
    }

    private long late(int kept) {
        return lateNanos[(oldest + kept) % KEPT];
    }

    private boolean isKnown(long nowNanos) {
        return nr > 0 && nowNanos - addedNanos[(oldest + nr - 1) % KEPT] <= RECENT_NANOS;
    }

    /** As long as one request may have waited: of late, so many threads, each as late as some were. */
    long beforeEntryNanos(long nowNanos) {
        if (!isKnown(nowNanos)) {
            return 0;
        }
        long nanos = 0;
        for (int wakeUp = 0; wakeUp < NR_BEFORE_ENTRY; wakeUp++) {
            at = (at + STRIDE) % KEPT;
            nanos += late(at % nr) - leastNanos;
        }
        return nanos;
    }

    /** How long a request waits so on average. */
    long meanBeforeEntryNanos(long nowNanos) {
        if (!isKnown(nowNanos)) {
            return 0;
        }
        long sum = 0;
        for (int kept = 0; kept < nr; kept++) {
            sum += late(kept) - leastNanos;
        }
        return NR_BEFORE_ENTRY * sum / nr;
    }
}
