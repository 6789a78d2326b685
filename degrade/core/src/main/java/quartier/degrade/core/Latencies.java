package quartier.degrade.core;

import java.util.Arrays;
import java.util.OptionalLong;

/** The latest latencies of a class, a fixed number of them. */
public final class Latencies {
    private static final int KEPT = 512;

    private final long[] nanos = new long[KEPT];
    private final long[] atNanos = new long[KEPT];
    private long nr;

    void add(long latencyNanos, long nowNanos) {
        int slot = (int) (nr % KEPT);
        nanos[slot] = latencyNanos;
        atNanos[slot] = nowNanos;
        nr++;
    }

    /** How many there have been. */
    public long nr() {
        return nr;
    }

    /** A quantile of those that ended since then, as far as they are kept; absent if there are none. */
    public OptionalLong quantile(double quantile, long sinceNanos) {
        int kept = (int) Math.min(nr, KEPT);
        long[] chosen = new long[kept];
        int nrChosen = 0;
        for (int at = 0; at < kept; at++) {
            if (atNanos[at] - sinceNanos >= 0) {
                chosen[nrChosen++] = nanos[at];
            }
        }
        if (nrChosen == 0) {
            return OptionalLong.empty();
        }
        Arrays.sort(chosen, 0, nrChosen);
        int rank = (int) Math.ceil(quantile * nrChosen);
        return OptionalLong.of(chosen[Math.max(rank, 1) - 1]);
    }
}
