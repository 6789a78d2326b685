package quartier.degrade.core.policy;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import quartier.degrade.core.RunQueue;

/**
 * Holds one class's p95 at a target, and gives the others what that leaves: {@code protect} (the target is a
 * number) and {@code curve} (it depends on how many jobs of another class are there).
 *
 * <p>The target is met by moving the class's own share of permit time: it rises while the class is slower than it may
 * be, and falls while it is faster. What a class has is as long as its share is small, so a step by a part of what is missing comes as
 * far at any share; a step by the others' share would overshoot where they have nearly all. Who does not use a share leaves it to the
 * rest, so nothing is wasted. Under {@code protect} the others never have more than the kernel would give so many of them.
 */
public final class Target implements Policy {
    private static final long STEP_NANOS = 100_000_000;
    /** Where there are few requests it is longer, so that it has some. */
    private static final long STEP_NANOS_OF_FEW = 500_000_000;
    /** And as long as so many of its latencies: what ends soon after a step has begun had begun before. */
    private static final double STEP_LATENCIES = 1.5;
    private static final long STEP_NANOS_MAX = 5_000_000_000L;
    private static final int STEP_COMPLETIONS = 20;
    /** The others' share at least: what never gets a CPU holds its thread and its memory for ever. */
    private static final double SHARE_MIN = 0.02;
    private static final double SHARE_MAX = 0.98;
    /**
     * Where so small a share is still too much, others do not hand on what they have: they hold locks at their points. What has
     * to wait for one of them to end is better off with a permit of its own. It is then so much faster that the share rises again:
     * that is no reason to take it away soon.
     */
    private static final double SHARE_OF_STUBBORN = 0.1;
    private static final long KEEPS_NANOS = 30_000_000_000L;
    /** One request that does not end for so long, and for so many targets, misses its own, and once more after twice that. */
    private static final long STUCK_NANOS = 1_000_000_000;
    private static final int STUCK_TARGETS = 10;
    /** Whoever comes so often is not away in between. */
    private static final long PRESENT_NANOS = 200_000_000;
    /** A p95 so far above the target misses it. Whoever does for so long, while the others have next to nothing, cannot be helped. */
    private static final double MISSES_ABOVE = 1.1;
    private static final long OUT_OF_REACH_NANOS = 10_000_000_000L;
    private static final double GAIN = 0.4;
    private static final double STEP_UP_MAX = 2;
    private static final double STEP_DOWN_MAX = 0.85;
    private static final double QUANTILE = 0.95;
    /** For each request, of which one step has no more than so many: 6 % at most, while a step goes by the {@link #GAIN}. */
    private static final double CORRECTION = 0.003;
    private static final int CORRECTION_NR_MAX = 20;
    private static final double AIMED_PART_MIN = 0.7;
    private static final double AIMED_PART_MAX = 1.1;
    private static final double LAG_MAX_NANOS = 5e6;
    private static final double LOAD_NANOS = 100e6;

    private final String protectedClass;
    private final String loadClass;
    private final Curve curve;
    private final Weighted amongOthers = new Weighted();

    private double othersShare = 0.5;
    /** What steps aim at, of the target. */
    private double aimedPart = 1;
    private double protectedNanos;
    private double othersNanos;
    private double floorNanos;
    private long steppedNanos = Long.MIN_VALUE;
    private long lookedNanos;
    /** Since when, and until when, the target was missed though the others had as little as they ever have. */
    private long missesSinceNanos;
    private long missesUntilNanos;
    private long nrAtStep;
    /** How many of the load's class there are, smoothed: a curve is no reason to jump. */
    private double load;
    private long tickedNanos;
    private long keepsUntilNanos = Long.MIN_VALUE;
    private final Hold hold = new Hold();
    /** Whether it is free: a step begins anew whenever that changes. */
    private boolean wasFree;
    /** Whether others were here since the last step, and waited: else their share says nothing. */
    private boolean wasInCompany;
    private boolean wasWanted;
    /** Since when the protected class has been here at each tick without any of it ending, and how often that was held against it. */
    private long stuckSinceNanos;
    private boolean wasHere;
    private int nrStuck;
    /** Of all who are here, smoothed: what others would have of the CPUs if all of them ran in turn. 0: not known yet. */
    private double partOfOthers;
    /** From when on the protected class is away, if it does not come, and what had ended of it when it was last seen. */
    private long presentUntilNanos = Long.MIN_VALUE;
    private long nrAtTick;
    private long targetNanos;

    private Target(String protectedClass, String loadClass, Curve curve) {
        this.protectedClass = protectedClass;
        this.loadClass = loadClass;
        this.curve = curve;
        this.targetNanos = curve.at(0);
    }

    public static Target protect(String protectedClass, long p95Nanos) {
        return new Target(protectedClass, null, Curve.level(p95Nanos));
    }

    public static Target curve(String protectedClass, String loadClass, Curve curve) {
        return new Target(protectedClass, loadClass, curve);
    }

    @Override
    public RunQueue next(List<RunQueue> waiting, long nowNanos) {
        RunQueue own = find(waiting, protectedClass);
        List<RunQueue> others = new ArrayList<>(waiting);
        others.remove(own);
        // Whoever did not want anything for a while has no credit for that: both start where the clock is.
        protectedNanos = Math.max(protectedNanos, floorNanos - LAG_MAX_NANOS);
        othersNanos = Math.max(othersNanos, floorNanos - LAG_MAX_NANOS);
        boolean takesOwn = own != null && (others.isEmpty() || protectedNanos <= othersNanos);
        floorNanos = Math.max(floorNanos, takesOwn ? protectedNanos : othersNanos);
        return takesOwn ? own : amongOthers.next(others, nowNanos);
    }

    @Override
    public RunQueue keepsOneFor(List<RunQueue> all) {
        boolean isNeeded = tickedNanos < keepsUntilNanos && tickedNanos < presentUntilNanos;
        return isNeeded ? find(all, protectedClass) : null;
    }

    /** Where the target is met without us, nobody pays. On a curve a class may have to be slower than it would be, so that others are faster. */
    @Override
    public boolean holdsNobody() {
        return loadClass == null && !hold.isHeld();
    }

    /** Whoever is protected pays for nobody, as long as the target is met without us too. All others are there to be overtaken at once. */
    @Override
    public int nrFreeMax(RunQueue alone, List<RunQueue> all, int nrPermits) {
        boolean isOwn = alone.workClass().name().equals(protectedClass);
        return isOwn && !hold.isHeld() ? Integer.MAX_VALUE : 0;
    }

    private static RunQueue find(List<RunQueue> queues, String name) {
        for (RunQueue queue : queues) {
            if (queue.workClass().name().equals(name)) {
                return queue;
            }
        }
        return null;
    }

    @Override
    public void charge(RunQueue queue, long heldNanos) {
        if (queue.workClass().name().equals(protectedClass)) {
            protectedNanos += heldNanos / (1 - othersShare());
        } else {
            othersNanos += heldNanos / othersShare();
            amongOthers.charge(queue, heldNanos);
        }
    }

    @Override
    public void tick(List<RunQueue> all, long nowNanos, boolean isEnforced) {
        amongOthers.tick(all, nowNanos, isEnforced);
        RunQueue own = find(all, protectedClass);
        RunQueue loading = loadClass == null ? null : find(all, loadClass);
        boolean isFirst = steppedNanos == Long.MIN_VALUE;
        double ofNow = isFirst ? 1 : 1 - Math.exp((tickedNanos - nowNanos) / LOAD_NANOS);
        if (loading != null) {
            load += ofNow * (loading.nrPresent() - load);
        }
        seeWhoIsHere(partOfOthers(all, own), ofNow);
        tickedNanos = nowNanos;
        boolean isHere = own != null && own.isHere();
        if (!isHere || !wasHere || own.latencies().nr() != nrAtTick) {
            stuckSinceNanos = nowNanos;
            nrStuck = 0;
        }
        wasHere = isHere;
        if (own != null && (own.nrPresent() > 0 || own.latencies().nr() != nrAtTick)) {
            presentUntilNanos = nowNanos + PRESENT_NANOS;
            nrAtTick = own.latencies().nr();
        }
        targetNanos = curve.at(load);
        if (own == null) {
            return;
        }
        if (isFirst) {
            misses(false, nowNanos);
            presentUntilNanos = Math.max(presentUntilNanos, nowNanos);
        }
        if (isFirst || wasFree != own.isFree()) {
            wasFree = own.isFree();
            restart(own, nowNanos);
        }
        wasInCompany |= all.stream().anyMatch(queue -> queue != own && queue.isHere());
        wasWanted |= isWanted(all, own);
        if (!isEnforced) {
            restart(own, nowNanos);
        } else if (isStepOver(own, nowNanos)) {
            step(all, own, nowNanos);
            restart(own, nowNanos);
        }
    }

    private boolean isStepOver(RunQueue own, long nowNanos) {
        long elapsedNanos = nowNanos - steppedNanos;
        long nrEnded = own.latencies().nr() - nrAtStep;
        long leastNanos = nrEnded >= STEP_COMPLETIONS ? STEP_NANOS : STEP_NANOS_OF_FEW;
        if (elapsedNanos < leastNanos || nowNanos - lookedNanos < STEP_NANOS) {
            return false;
        }
        lookedNanos = nowNanos;
        if (elapsedNanos >= STEP_NANOS_MAX) {
            return true;
        }
        // What has not ended counts as soon as it is late.
        boolean saysAll = own.nrPresent() == 0 || lateNanos(own, nowNanos) > 0;
        if (saysAll && elapsedNanos >= STEP_NANOS_OF_FEW) {
            return true;
        }
        return nrEnded > 0 && elapsedNanos >= STEP_LATENCIES * p95(own).orElse(0);
    }

    private OptionalLong p95(RunQueue own) {
        return own.latencies().quantileAfter(QUANTILE, nrAtStep);
    }

    private void restart(RunQueue own, long nowNanos) {
        steppedNanos = nowNanos;
        lookedNanos = nowNanos;
        wasInCompany = false;
        wasWanted = false;
        nrAtStep = own.latencies().nr();
    }

    private void step(List<RunQueue> all, RunQueue own, long nowNanos) {
        // Else a class that is shut out looks well.
        long latencyNanos = Math.max(p95(own).orElse(0), lateNanos(own, nowNanos));
        if (latencyNanos == 0) {
            if (nowNanos - presentUntilNanos >= OUT_OF_REACH_NANOS) {
                misses(false, nowNanos);
                hold.tryWithout(nowNanos);
            }
            return;
        }
        boolean othersHaveLeast = !wasInCompany || !wasFree && othersShare() <= SHARE_MIN;
        misses(othersHaveLeast && latencyNanos > MISSES_ABOVE * targetNanos, nowNanos);
        if (wasFree) {
            lookWithout(own, nowNanos);
            return;
        }
        if (!wasWanted || othersShare >= othersMost() && latencyNanos <= targetNanos) {
            hold.tryWithout(nowNanos);
        }
        if (wasInCompany) {
            share(all, own, latencyNanos);
        }
    }

    /** How the target was met since the last step, while nobody was held. */
    private void lookWithout(RunQueue own, long nowNanos) {
        long nrEnded = own.latencies().nr() - nrAtStep;
        if (nrEnded > 0) {
            hold.look(nrEnded, missedPart(own), nowNanos);
        }
        long lostNanos = Math.max(STUCK_NANOS, STUCK_TARGETS * targetNanos);
        if (nrStuck < 2 && nowNanos - stuckSinceNanos > (nrStuck + 1) * lostNanos) {
            hold.look(0, 1, nowNanos);
            nrStuck++;
        }
    }

    private double missedPart(RunQueue own) {
        return own.latencies().partAbove(targetNanos, nrAtStep);
    }

    private static double partOfOthers(List<RunQueue> all, RunQueue own) {
        int nrAll = 0;
        int nrOthers = 0;
        for (RunQueue queue : all) {
            nrAll += queue.nrHere();
            nrOthers += queue == own ? 0 : queue.nrHere();
        }
        return nrAll == 0 ? 0 : (double) nrOthers / nrAll;
    }

    /** While only one side is here, nobody takes turns. */
    private void seeWhoIsHere(double part, double ofNow) {
        if (part > 0 && part < 1) {
            partOfOthers = partOfOthers == 0 ? part : partOfOthers + ofNow * (part - partOfOthers);
        }
    }

    private static boolean isWanted(List<RunQueue> all, RunQueue own) {
        return all.stream().anyMatch(queue -> queue != own && queue.nrWaiting() > 0);
    }

    private void misses(boolean misses, long nowNanos) {
        missesSinceNanos = misses ? missesSinceNanos : nowNanos;
        missesUntilNanos = nowNanos;
    }

    private void share(List<RunQueue> all, RunQueue own, long latencyNanos) {
        double factor = Math.pow(latencyNanos / (targetNanos * aimedPart), GAIN);
        boolean wanted = isWanted(all, own);
        boolean othersHaveMost = othersShare >= othersMost();
        if (factor < 1 && (!wanted || othersHaveMost)) {
            return;
        }
        if (wanted && othersShare > SHARE_MIN && !othersHaveMost) {
            correct(own);
        }
        double ownShare = (1 - othersShare()) * Math.min(Math.max(factor, STEP_DOWN_MAX), STEP_UP_MAX);
        othersShare = Math.min(Math.max(1 - ownShare, SHARE_MIN), SHARE_MAX);
        if (othersShare < SHARE_OF_STUBBORN) {
            keepsUntilNanos = tickedNanos + KEEPS_NANOS;
        }
    }

    /**
     * So much are steps apart from each other that the p95 of all is above the p95 of a step. So what steps aim at moves until as many
     * requests miss the target as may.
     */
    private void correct(RunQueue own) {
        double missed = missedPart(own);
        long nr = Math.min(own.latencies().nr() - nrAtStep, CORRECTION_NR_MAX);
        if (nr > 0) {
            double part = aimedPart * Math.exp(CORRECTION * nr * (1 - QUANTILE - missed));
            aimedPart = Math.min(Math.max(part, AIMED_PART_MIN), AIMED_PART_MAX);
        }
    }

    /** How old one that has not ended is, if that misses the target by far: of those that run it is known that none has ended. */
    private long lateNanos(RunQueue own, long nowNanos) {
        long waitsNanos = own.nrWaiting() == 0 ? 0 : nowNanos - own.headArrivedNanos();
        long ageNanos = wasFree ? nowNanos - stuckSinceNanos : waitsNanos;
        return ageNanos > 2 * targetNanos ? ageNanos : 0;
    }

    @Override
    public long targetNanos(RunQueue queue) {
        return queue.workClass().name().equals(protectedClass) ? targetNanos : -1;
    }

    @Override
    public Optional<Aim> aim() {
        boolean outOfReach = missesUntilNanos - missesSinceNanos >= OUT_OF_REACH_NANOS;
        return Optional.of(new Aim(protectedClass, loadClass, curve.points(), load, targetNanos, othersShare(), outOfReach));
    }

    @Override
    public String name() {
        return loadClass == null ? "protect" : "curve";
    }

    /** The part of permit time that all other classes may have while the protected one wants it, 0 to 1. */
    public double othersShare() {
        return Math.min(othersShare, othersMost());
    }

    /**
     * Whoever is to be protected has at least what the kernel would give it if all ran in turn, however far it is from its target: it is
     * not there to be slowed down. On a curve it may be.
     */
    private double othersMost() {
        boolean isKnown = loadClass == null && partOfOthers > 0;
        return isKnown ? Math.min(Math.max(partOfOthers, SHARE_MIN), SHARE_MAX) : SHARE_MAX;
    }
}
