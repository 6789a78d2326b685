package quartier.degrade.core;

/**
 * How many permits there are: as configured, or, where the configuration leaves it to us, more while CPUs have nothing to do although
 * jobs wait. Threads that block for too short a time to lend their permit would keep CPUs idle else. Under the dispatcher's lock.
 */
final class Permits {
    /** CPU time that nobody has used is counted in clock ticks of 10 ms. */
    private static final long STEP_NANOS = 200_000_000;
    /** A step that is longer had no ticks in it for a while: what was idle then says nothing. */
    private static final long STEP_NANOS_MAX = 2 * STEP_NANOS;
    /** The part of all CPU time that is idle. Between the two all is well: else there would be one more and one less in turn. */
    private static final double IDLE_TOO_MUCH = 0.05;
    private static final double IDLE_NONE = 0.01;
    /** The part of a step in which somebody is to wait. */
    private static final double WAITING_PART = 0.9;
    private static final int TIMES_MAX = 8;

    private int nrConfigured;
    private boolean mayGrow;
    private int nrMore;
    private long steppedNanos;
    private int nrTicks;
    private int nrTicksWaiting;

    void configure(Settings settings) {
        nrConfigured = settings.nrPermits();
        mayGrow = settings.permitsMayGrow();
        nrMore = 0;
    }

    int nr() {
        return nrConfigured + nrMore;
    }

    void tick(long nowNanos, boolean anyWaits, Probe probe) {
        if (!mayGrow) {
            return;
        }
        nrTicks++;
        nrTicksWaiting += anyWaits ? 1 : 0;
        long elapsedNanos = nowNanos - steppedNanos;
        if (elapsedNanos < STEP_NANOS) {
            return;
        }
        double idlePart = probe.idlePart();
        if (elapsedNanos <= STEP_NANOS_MAX) {
            step(idlePart, nrTicksWaiting >= WAITING_PART * nrTicks);
        }
        steppedNanos = nowNanos;
        nrTicks = 0;
        nrTicksWaiting = 0;
    }

    /** Up step by step, and down at once: whoever waits for a CPU waits for all that have a permit. */
    private void step(double idlePart, boolean anyWaited) {
        if (anyWaited && idlePart > IDLE_TOO_MUCH) {
            nrMore = Math.min(nrMore + 1 + nrMore / 4, (TIMES_MAX - 1) * nrConfigured);
        } else if (idlePart < IDLE_NONE) {
            nrMore /= 2;
        }
    }
}
