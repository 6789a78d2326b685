package quartier.degrade.core;

import java.util.List;
import java.util.function.Supplier;
import quartier.degrade.core.policy.Policy;

/**
 * What a scheduler is told to do.
 *
 * @param nrPermits how many jobs run at once
 * @param permitsMayGrow whether there may be more while CPUs are idle although jobs wait
 * @param waitMaxNanos how long a job that has begun may wait at once
 * @param classes in the order in which their rules are tried; names are unique
 */
public record Settings(
        int nrPermits,
        boolean permitsMayGrow,
        long sliceNanos,
        long waitMaxNanos,
        Mode mode,
        Supplier<Policy> policy,
        List<WorkClass> classes) {

    /** Whether anything is done, or only said what would be. */
    public enum Mode { ON, DRY_RUN, OFF }

    public static final long SLICE_NANOS = 2_000_000;
    public static final long WAIT_MAX_NANOS = 1_000_000_000;

    public Settings {
        classes = List.copyOf(classes);
        if (nrPermits < 1 || sliceNanos < 1 || waitMaxNanos < 1 || classes.isEmpty()) {
            throw new IllegalArgumentException("permits, slice, longest wait and classes are needed");
        }
        if (classes.stream().map(WorkClass::name).distinct().count() < classes.size()) {
            throw new IllegalArgumentException("two classes have one name");
        }
    }

    /** So many permits, and never more. */
    public Settings(
            int nrPermits, long sliceNanos, long waitMaxNanos, Mode mode, Supplier<Policy> policy, List<WorkClass> classes) {
        this(nrPermits, false, sliceNanos, waitMaxNanos, mode, policy, classes);
    }

    public Settings withMode(Mode newMode) {
        return new Settings(nrPermits, permitsMayGrow, sliceNanos, waitMaxNanos, newMode, policy, classes);
    }
}
