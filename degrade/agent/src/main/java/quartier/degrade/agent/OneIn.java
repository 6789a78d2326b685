package quartier.degrade.agent;

import java.util.concurrent.ThreadLocalRandom;

/**
 * Chooses so many in a second of what may come far more often, any with the same probability: by how many came of late, not by the time, or
 * what comes after a pause would be chosen too often. Several threads may count at once, and then it is a little wrong for a moment.
 */
final class OneIn {
    private static final long COUNTED_NANOS = 100_000_000;
    private static final double NANOS_PER_SECOND = 1e9;

    private final int perSecond;
    /** So many that are chosen of too many, until that is seen. */
    private final int nrChosenSoon;
    private volatile int oneIn = 1;
    private volatile long countsNanos;
    private volatile int nr;

    OneIn(int perSecond, long nowNanos) {
        this.perSecond = perSecond;
        this.nrChosenSoon = Math.max(8, perSecond / 8);
        countsNanos = nowNanos;
    }

    /** Whether this one is. */
    boolean chooses(long nowNanos) {
        int nrNow = nr + 1;
        long elapsedNanos = nowNanos - countsNanos;
        if (elapsedNanos >= COUNTED_NANOS || elapsedNanos > 0 && nrNow >= (long) nrChosenSoon * oneIn) {
            oneIn = (int) Math.max(1, nrNow / (perSecond * (elapsedNanos / NANOS_PER_SECOND)));
            countsNanos = nowNanos;
            nrNow = 0;
        }
        nr = nrNow;
        int one = oneIn;
        return one == 1 || ThreadLocalRandom.current().nextInt(one) == 0;
    }
}
