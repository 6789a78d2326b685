package quartier.degrade.weave;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.function.IntPredicate;

/**
 * Which yield points are enough. What was seen are windows: about a millisecond of CPU time of a thread each, with the
 * points that it passed. Chosen are so few passages that nearly every window has one.
 *
 * <p>Points that are passed seldom stay whether a window needs them or not: they cost nothing, and code that the profile
 * did not see keeps its points. So only those are left out that are passed often, and not needed beside others. The end of
 * a request lets others run as well as any point does: those that would slow their code down are chosen only where a request
 * would go on for long without.
 */
public final class PointChoice {
    /** Once in 0.2 ms. */
    public static final double OFTEN_PER_S = 5000;
    /** Once in 0.1 µs: a point in code as hot as that costs a hundredth of its time or more. */
    public static final double DEAR_PER_S = 10_000_000;
    /** For so long a request may do without a point that is dear. */
    public static final long WITHOUT_MAX_NANOS = 10_000_000;
    /** Windows that may stay without a point: a profile is a sample. */
    private static final double UNCOVERED_PART_MAX = 0.005;

    private final double[] perSecond;
    private final List<List<Window>> requests;
    private final BitSet chosen = new BitSet();
    private final BitSet needed = new BitSet();
    private final int nrWindows;
    private final int nrWithout;
    private final int nrLongWithout;

    /** A while of a thread's CPU time, and which points it passed. */
    public record Window(BitSet points, long nanos) {}

    /**
     * @param before an earlier profile: what it left out was not there to be counted now, and what ran then may run again. Null
     *     for none
     * @param nrPassed by number of the point, how often it was passed
     * @param cpuNanos in so much CPU time
     * @param requests the windows of each request, one after the other
     */
    public PointChoice(PointChoice before, long[] nrPassed, long cpuNanos, List<List<Window>> requests) {
        this.perSecond = perSecond(before, nrPassed, cpuNanos / 1e9);
        this.requests = new ArrayList<>(before == null ? List.of() : before.requests);
        this.requests.addAll(requests);
        this.nrWindows = this.requests.stream().mapToInt(List::size).sum();
        for (int id = 0; id < perSecond.length; id++) {
            chosen.set(id, perSecond(id) < OFTEN_PER_S);
        }
        List<BitSet> without = without(0);
        cover(without, id -> !isDear(id));
        cover(without(WITHOUT_MAX_NANOS), id -> true);
        without.removeIf(window -> window.intersects(chosen));
        nrWithout = without.size();
        // Anew: what was chosen has divided long stretches.
        nrLongWithout = without(WITHOUT_MAX_NANOS).size();
    }

    /** As often as either profile has seen it. */
    private static double[] perSecond(PointChoice before, long[] nrPassed, double cpuSeconds) {
        int nrBefore = before == null ? 0 : before.perSecond.length;
        double[] perSecond = new double[Math.max(nrPassed.length, nrBefore)];
        for (int id = 0; id < perSecond.length; id++) {
            double now = id < nrPassed.length && cpuSeconds > 0 ? nrPassed[id] / cpuSeconds : 0;
            perSecond[id] = Math.max(now, id < nrBefore ? before.perSecond[id] : 0);
        }
        return perSecond;
    }

    /** Windows without a chosen point, where those that follow each other last for so long. */
    private List<BitSet> without(long atLeastNanos) {
        List<BitSet> without = new ArrayList<>();
        for (List<Window> windows : requests) {
            List<BitSet> stretch = new ArrayList<>();
            long nanos = 0;
            for (Window window : windows) {
                if (!window.points.intersects(chosen)) {
                    stretch.add(window.points);
                    nanos += window.nanos;
                    continue;
                }
                without.addAll(nanos >= atLeastNanos ? stretch : List.of());
                stretch.clear();
                nanos = 0;
            }
            without.addAll(nanos >= atLeastNanos ? stretch : List.of());
        }
        return without;
    }

    /** Chooses points until nearly all of these windows have one, and takes those that have out of the list. */
    private void cover(List<BitSet> uncovered, IntPredicate allowed) {
        while (uncovered.size() > UNCOVERED_PART_MAX * nrWindows) {
            int best = best(uncovered, allowed);
            if (best < 0) {
                break;
            }
            chosen.set(best);
            needed.set(best);
            uncovered.removeIf(window -> window.get(best));
        }
    }

    /** The point that covers most for what it costs, or -1 if none covers anything. */
    private int best(List<BitSet> uncovered, IntPredicate allowed) {
        int[] nrCovered = new int[perSecond.length];
        for (BitSet window : uncovered) {
            window.stream().forEach(id -> nrCovered[id]++);
        }
        int best = -1;
        for (int id = 0; id < nrCovered.length; id++) {
            if (nrCovered[id] > 0 && allowed.test(id) && (best < 0 || gain(nrCovered, id) > gain(nrCovered, best))) {
                best = id;
            }
        }
        return best;
    }

    private double gain(int[] nrCovered, int id) {
        return nrCovered[id] / perSecond(id);
    }

    /** Whether it was there to be counted. */
    public boolean isCounted(int id) {
        return id < perSecond.length;
    }

    /** Whether it was passed at all. */
    public boolean isSeen(int id) {
        return isCounted(id) && perSecond[id] > 0;
    }

    /** How often a point is passed in a second of CPU time. */
    public double perSecond(int id) {
        return perSecond[id];
    }

    /** A point that was never seen is chosen too. */
    public boolean isChosen(int id) {
        return !isCounted(id) || chosen.get(id);
    }

    /** Whether it is there because windows need it, and not because it is passed seldom. */
    public boolean isNeeded(int id) {
        return needed.get(id);
    }

    /** Whether it costs the code that it is in a hundredth of its time, or more. */
    public boolean isDear(int id) {
        return perSecond(id) >= DEAR_PER_S;
    }

    /** The part of the windows that pass a chosen point, 0 to 1; 1 without windows. */
    public double passingPart() {
        return nrWindows == 0 ? 1 : 1 - (double) nrWithout / nrWindows;
    }

    /** The part of the windows that do, or whose requests come to one or to their end soon. */
    public double coveredPart() {
        return nrWindows == 0 ? 1 : 1 - (double) nrLongWithout / nrWindows;
    }

    public int nrWindows() {
        return nrWindows;
    }

    /** How many chosen points are passed in a millisecond of CPU time, on average. */
    public double chosenPerMilli() {
        return chosen.stream().mapToDouble(this::perSecond).sum() / 1000;
    }

    /** The same of all. */
    public double allPerMilli() {
        return Arrays.stream(perSecond).sum() / 1000;
    }
}
