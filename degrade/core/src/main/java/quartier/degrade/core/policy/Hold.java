package quartier.degrade.core.policy;

/**
 * Whether anybody has to be held back for the sake of a p95, or it is met without that. Free, requests that miss the target count
 * against it; held, it is tried again after a while, and the later the sooner it went wrong the last time.
 */
final class Hold {
    /** A p95 that is met is missed by 5 %. */
    private static final double MISSED_PART_MAX = 0.07;
    /** So many requests more than that have missed it since all was well. */
    private static final double EXCESS_MAX = 8;
    /** In one look each says more where there are few; and where there are many, they have met the same. */
    private static final long NR_LEAST = 5;
    private static final long NR_MOST = 24;
    /** All of one look may have met one pause. */
    private static final double EXCESS_OF_LOOK_MAX = 7;
    private static final long HELD_NANOS_LEAST = 30_000_000_000L;
    private static final long HELD_NANOS_MOST = 16 * HELD_NANOS_LEAST;
    /** It went wrong at once if it did within the least time, or so few requests. */
    private static final long NR_AT_ONCE = 100;

    private boolean held;
    private double excess;
    private long nrSinceChange;
    private long changedNanos;
    private long heldNanos;

    boolean isHeld() {
        return held;
    }

    /** While nobody was held, so many requests ended, of which a part missed the target. */
    void look(long nrEnded, double missedPart, long nowNanos) {
        nrSinceChange += nrEnded;
        long weight = Math.min(Math.max(nrEnded, NR_LEAST), NR_MOST);
        double excessOfLook = Math.min(weight * (missedPart - MISSED_PART_MAX), EXCESS_OF_LOOK_MAX);
        excess = Math.max(0, excess + excessOfLook);
        if (excess > EXCESS_MAX && !held) {
            boolean atOnce = heldNanos > 0
                    && (nowNanos - changedNanos < HELD_NANOS_LEAST || nrSinceChange < NR_AT_ONCE);
            heldNanos = atOnce ? Math.min(2 * heldNanos, HELD_NANOS_MOST) : HELD_NANOS_LEAST;
            change(true, nowNanos);
        }
    }

    /** Where it might be met without holding anybody. */
    void tryWithout(long nowNanos) {
        if (held && nowNanos - changedNanos >= heldNanos) {
            change(false, nowNanos);
        }
    }

    private void change(boolean toHeld, long nowNanos) {
        held = toHeld;
        changedNanos = nowNanos;
        nrSinceChange = 0;
        excess = 0;
    }
}
