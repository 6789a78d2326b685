package quartier.degrade.core;

/**
 * How many permits there are: as configured, or, where the configuration leaves it to us, more while CPUs have nothing to do although
 * jobs wait. Threads that block for too short a time to lend their permit would keep CPUs idle else. Under the dispatcher's lock.
 */
final class Permits {
    /** The part of all CPU time that is idle. Between the two all is well: else there would be one more and one less in turn. */
    private static final double IDLE_TOO_MUCH = 0.05;
    private static final double IDLE_NONE = 0.01;
    /** The kernel counts idle time in ticks of 10 ms: in one look alone at few CPUs there may be none by chance. */
    private static final int BUSY_LOOKS = 2;
    private static final int TIMES_MAX = 8;
    /** What nobody has needed for so long was of another time. */
    private static final long NEEDED_NANOS = 5_000_000_000L;

    private int nrConfigured;
    private boolean mayGrow;
    private int nrMore;
    private Idle last;
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
        anyWaited = false;
    }

    int nr() {
        return nrConfigured + nrMore;
    }

    /** A step each time there is a new look at the CPUs. */
    void tick(long nowNanos, boolean anyWaits, Probe probe) {
        if (!mayGrow) {
            return;
        }
        waitedNanos += anyWaited ? nowNanos - tickedNanos : 0;
        tickedNanos = nowNanos;
        anyWaited = anyWaits;
        Idle idle = probe.idle();
        if (idle != null && idle != last) {
            last = idle;
            step(idle);
            waitedNanos = 0;
        }
    }

    /**
     * Up step by step, and down fast: whoever waits for a CPU waits for all that have a permit. While nobody waited for one, CPUs may
     * have been idle for want of work; at least the rest of it was idle although somebody waited.
     */
    private void step(Idle idle) {
        double nobodyWaitedPart = Math.max(0, 1 - (double) waitedNanos / idle.forNanos());
        double idleAlthoughPart = idle.part() - nobodyWaitedPart;
        if (idleAlthoughPart > IDLE_TOO_MUCH) {
            nrMore = Math.min(nrMore + 1 + nrMore / 4, (TIMES_MAX - 1) * nrConfigured);
        }
        nrBusyLooks = idle.part() < IDLE_NONE ? nrBusyLooks + 1 : 0;
        if (nrBusyLooks >= BUSY_LOOKS) {
            nrMore /= 4;
            nrBusyLooks = 0;
        }
        unneededNanos = idleAlthoughPart >= IDLE_NONE ? 0 : unneededNanos + idle.forNanos();
        if (unneededNanos >= NEEDED_NANOS) {
            nrMore /= 2;
            unneededNanos = 0;
        }
    }
}
