package quartier.degrade.core.policy;

import java.util.List;
import quartier.degrade.core.RunQueue;

/** Between classes, permit time in proportion to their weights (stride scheduling), minimum shares first. */
public final class Weighted implements Policy {
    /** How far a class that did not want anything falls behind at most: what it may catch up. */
    private static final double LAG_MAX_NANOS = 5e6;
    private static final long HALF_LIFE_NANOS = 500_000_000;

    private double floorNanos;
    private long decayedNanos = Long.MIN_VALUE;
    private double recentNanos;

    @Override
    public RunQueue next(List<RunQueue> waiting, long nowNanos) {
        RunQueue least = null;
        RunQueue neediest = null;
        for (RunQueue queue : waiting) {
            queue.virtualNanos = Math.max(queue.virtualNanos, floorNanos - LAG_MAX_NANOS);
            if (least == null || queue.virtualNanos < least.virtualNanos) {
                least = queue;
            }
            if (deficit(queue) > 0 && (neediest == null || deficit(queue) > deficit(neediest))) {
                neediest = queue;
            }
        }
        if (neediest != null) {
            return neediest;
        }
        floorNanos = Math.max(floorNanos, least.virtualNanos);
        return least;
    }

    private double deficit(RunQueue queue) {
        double share = recentNanos > 0 ? queue.recentNanos / recentNanos : 0;
        return queue.workClass().minimumShare() - share;
    }

    @Override
    public void charge(RunQueue queue, long heldNanos) {
        queue.virtualNanos += heldNanos / queue.workClass().weight();
        queue.recentNanos += heldNanos;
        recentNanos += heldNanos;
    }

    @Override
    public void tick(List<RunQueue> all, long nowNanos, boolean isEnforced) {
        if (decayedNanos == Long.MIN_VALUE) {
            decayedNanos = nowNanos;
        }
        if (nowNanos - decayedNanos >= HALF_LIFE_NANOS) {
            decayedNanos = nowNanos;
            recentNanos /= 2;
            for (RunQueue queue : all) {
                queue.recentNanos /= 2;
            }
        }
    }
}
