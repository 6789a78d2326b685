package quartier.degrade.core;

/**
 * How many permits there are: as configured, or, where the configuration leaves it to us, more while CPUs have nothing to do although
 * jobs wait, and fewer while the JVM's compilers have work. Threads that block for too short a time to lend their permit would keep CPUs
 * idle else; and as long as code is interpreted, each CPU that compiles it does more for everybody than one that runs it. Under the
 * dispatcher's lock.
 */
final class Permits {
    /** The part of all CPU time that is idle. Between the two all is well: else there would be one more and one less in turn. */
    private static final double IDLE_TOO_MUCH = 0.05;
    private static final double IDLE_NONE = 0.01;
    /** The kernel counts idle time in ticks of 10 ms: in one look alone at few CPUs there may be none by chance. */
    private static final int BUSY_LOOKS = 2;
    private static final int TIMES_MAX = 8;
    /** A compiler that worked for less of the time than the rest of this is none. */
    private static final double BUSY_PART = 0.2;
    private static final long SETTLED_NANOS = 1_000_000_000;
    /** What nobody has needed for so long was of another time. */
    private static final long NEEDED_NANOS = 5_000_000_000L;

    private int nrConfigured;
    private boolean mayGrow;
    private int nrMore;
    private Look last;
    private int nrLess;
    private long lessUntilNanos;
    private boolean wasLess;
    private int nrBusyLooks;
    private long unneededNanos;
    /** At the last tick. */
    private boolean anyWaited;
    private long tickedNanos;
    /** Since the last step. */
    private long waitedNanos;

    void configure(Settings settings) {
        nrConfigured = settings.nrPermits();
        mayGrow = settings.permitsMayGrow();
        nrMore = 0;
        nrLess = 0;
        wasLess = false;
        anyWaited = false;
    }

    int nr() {
        return Math.max(1, nrConfigured + nrMore - nrLess);
    }

    /** Whether there are fewer for the compilers' sake, or were of late: they come and go. */
    boolean areReduced(long nowNanos) {
        return nrLess > 0 || wasLess && nowNanos - lessUntilNanos < 0;
    }

    /** A step each time there is a new look at the CPUs. */
    void tick(long nowNanos, boolean anyWaits, Probe probe) {
        if (!mayGrow) {
            return;
        }
        waitedNanos += anyWaited ? nowNanos - tickedNanos : 0;
        tickedNanos = nowNanos;
        anyWaited = anyWaits;
        Look look = probe.look();
        if (look != null && look != last) {
            last = look;
            step(look);
            // Rounded down: one that has work for a moment now and then finds a CPU for that.
            nrLess = (int) (look.nrCompiling() + BUSY_PART);
            if (nrLess > 0) {
                wasLess = true;
                lessUntilNanos = nowNanos + SETTLED_NANOS;
            }
            waitedNanos = 0;
        }
    }

    /**
     * Up step by step, and down fast: whoever waits for a CPU waits for all that have a permit. While nobody waited for one, CPUs may
     * have been idle for want of work; at least the rest of it was idle although somebody waited.
     */
    private void step(Look look) {
        double nobodyWaitedPart = Math.max(0, 1 - (double) waitedNanos / look.forNanos());
        double idleAlthoughPart = look.idlePart() - nobodyWaitedPart;
        if (idleAlthoughPart > IDLE_TOO_MUCH) {
            nrMore = Math.min(nrMore + 1 + nrMore / 4, (TIMES_MAX - 1) * nrConfigured);
        }
        nrBusyLooks = look.idlePart() < IDLE_NONE ? nrBusyLooks + 1 : 0;
        if (nrBusyLooks >= BUSY_LOOKS) {
            nrMore /= 4;
            nrBusyLooks = 0;
        }
        unneededNanos = idleAlthoughPart >= IDLE_NONE ? 0 : unneededNanos + look.forNanos();
        if (unneededNanos >= NEEDED_NANOS) {
            nrMore /= 2;
            unneededNanos = 0;
        }
    }
}
