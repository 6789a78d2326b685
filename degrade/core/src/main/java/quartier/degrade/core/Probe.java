package quartier.degrade.core;

/** Says what a job's thread is doing. */
public interface Probe {
    /** Whether it has run since it was last looked at, or would if the kernel let it. */
    boolean wantsCpu(Job job);

    /** Whether it has run since it was last looked at. Cheaper: asked of many. */
    boolean hasRun(Job job);

    /** How late whoever calls ran after a sleep that had an end; negative if somebody woke it, or it has not slept. */
    default long lateNanos() {
        return -1;
    }

    /** What CPUs did when it was last looked; the same one until it is looked again. Null if it never was. */
    default Look look() {
        return null;
    }
}
