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

    private final long[] lateNanos = new long[KEPT];
    private int nr;
    private int at;
    /** Timers are a little late in any case. */
    private long leastNanos;

    void add(long nanos) {
        if (nanos < 0) {
            return;
        }
        lateNanos[nr++ % KEPT] = nanos;
        // Counters that come to an end begin again with all kept.
        nr = nr == 2 * KEPT ? KEPT : nr;
        leastNanos = Long.MAX_VALUE;
        for (int kept = 0; kept < nrKept(); kept++) {
            leastNanos = Math.min(leastNanos, lateNanos[kept]);
        }
    }

    private int nrKept() {
        return Math.min(nr, KEPT);
    }

    /** As long as one request may have waited: of late, so many threads, each as late as some were. */
    long beforeEntryNanos() {
        long nanos = 0;
        for (int wakeUp = 0; wakeUp < NR_BEFORE_ENTRY && nr > 0; wakeUp++) {
            at = (at + STRIDE) % KEPT;
            nanos += lateNanos[at % nrKept()] - leastNanos;
        }
        return nanos;
    }

    /** How long a request waits so on average. */
    long meanBeforeEntryNanos() {
        long sum = 0;
        for (int kept = 0; kept < nrKept(); kept++) {
            sum += lateNanos[kept] - leastNanos;
        }
        return nr == 0 ? 0 : NR_BEFORE_ENTRY * sum / nrKept();
    }
}
