package quartier.degrade.weave;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/**
 * Which yield points are enough. What was seen are windows: about a millisecond of CPU time of a thread each, with the
 * points that it passed. Chosen are so few passages that nearly every window has one.
 *
 * <p>Points that are passed seldom stay whether a window needs them or not: they cost nothing, and code that the profile
 * did not see keeps its points. So only those are left out that are passed often, and not needed beside others.
 */
public final class PointChoice {
    /** Once in 0.2 ms. */
    public static final double OFTEN_PER_S = 5000;
    /** Windows that may stay without a point: a profile is a sample. */
    private static final double UNCOVERED_PART_MAX = 0.005;

    private final long[] nrPassed;
    private final double cpuSeconds;
    private final BitSet chosen = new BitSet();
    private final BitSet needed = new BitSet();
    private final int nrWindows;
    private final int nrUncovered;

    /**
     * @param nrPassed by number of the point, how often it was passed
     * @param cpuNanos in so much CPU time
     * @param windows by window, which points were passed
     */
    public PointChoice(long[] nrPassed, long cpuNanos, List<BitSet> windows) {
        this.nrPassed = nrPassed.clone();
        this.cpuSeconds = cpuNanos / 1e9;
        this.nrWindows = windows.size();
        for (int id = 0; id < nrPassed.length; id++) {
            chosen.set(id, perSecond(id) < OFTEN_PER_S);
        }
        List<BitSet> uncovered = new ArrayList<>(windows);
        uncovered.removeIf(window -> window.intersects(chosen));
        while (uncovered.size() > UNCOVERED_PART_MAX * nrWindows) {
            int best = best(uncovered);
            if (best < 0) {
                break;
            }
            chosen.set(best);
            needed.set(best);
            uncovered.removeIf(window -> window.get(best));
        }
        nrUncovered = uncovered.size();
    }

    /** The point that covers most for what it costs, or -1 if none covers anything. */
    private int best(List<BitSet> uncovered) {
        int[] nrCovered = new int[nrPassed.length];
        for (BitSet window : uncovered) {
            window.stream().forEach(id -> nrCovered[id]++);
        }
        int best = -1;
        for (int id = 0; id < nrCovered.length; id++) {
            if (nrCovered[id] > 0 && (best < 0 || gain(nrCovered, id) > gain(nrCovered, best))) {
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
        return id < nrPassed.length;
    }

    /** How often a point is passed in a second of CPU time. */
    public double perSecond(int id) {
        return cpuSeconds > 0 ? nrPassed[id] / cpuSeconds : 0;
    }

    /** A point that was never seen is chosen too. */
    public boolean isChosen(int id) {
        return id >= nrPassed.length || chosen.get(id);
    }

    /** Whether it is there because windows need it, and not because it is passed seldom. */
    public boolean isNeeded(int id) {
        return needed.get(id);
    }

    /** The part of the windows that pass a chosen point, 0 to 1; 1 without windows. */
    public double coveredPart() {
        return nrWindows == 0 ? 1 : 1 - (double) nrUncovered / nrWindows;
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
        double sum = 0;
        for (int id = 0; id < nrPassed.length; id++) {
            sum += perSecond(id);
        }
        return sum / 1000;
    }
}
