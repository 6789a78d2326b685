package quartier.degrade.core.policy;

import java.util.List;
import java.util.Locale;
import java.util.Optional;
import quartier.degrade.core.RunQueue;

/** Who runs next. Called under the dispatcher's lock: it computes, and nothing else. */
public interface Policy {
    /** The class of which a job gets a permit. At least one is given, each with a job that waits. */
    RunQueue next(List<RunQueue> waiting, long nowNanos);

    /**
     * For how many slices a job goes before others of its own class. To others it hands its permit on after each. Within a class
     * that would delay all, and each comes back to a CPU whose caches know nothing of it.
     */
    default int nrSlicesInTurn() {
        return 10;
    }

    /** A class has held a permit for so long while somebody waited. */
    default void charge(RunQueue queue, long heldNanos) {}

    /**
     * Called often, with all classes.
     *
     * @param isEnforced whether anything is done as this policy says; else what happens says nothing about it
     */
    default void tick(List<RunQueue> all, long nowNanos, boolean isEnforced) {}

    /**
     * The class for which one permit is kept from all others, also while it does not want it; null if there is none. There is a
     * permit more than CPUs by default, so that costs no work unless others block.
     */
    default RunQueue keepsOneFor(List<RunQueue> all) {
        return null;
    }

    /**
     * How many jobs of a class may run as they like while no other class is here. When one comes, each of them runs to its next
     * yield point before permits count again, which takes some half a millisecond of CPU: so few that this is soon done, unless
     * whoever comes has nothing to ask of this class.
     */
    default int nrFreeMax(RunQueue alone, List<RunQueue> all, int nrPermits) {
        return 16 * nrPermits;
    }

    /** Whether everybody may run as they like, because all is well without us. */
    default boolean holdsNobody() {
        return false;
    }

    /** The latency that the class is held to now, or -1 if there is none. */
    default long targetNanos(RunQueue queue) {
        return -1;
    }

    /** What it holds a class to, if it does that. */
    default Optional<Aim> aim() {
        return Optional.empty();
    }

    /** As a configuration calls it. */
    default String name() {
        return getClass().getSimpleName().toLowerCase(Locale.ROOT);
    }
}
