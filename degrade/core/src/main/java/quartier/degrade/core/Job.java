package quartier.degrade.core;

/** One request on its thread, from the server's entry to its return. Written under the dispatcher's lock. */
public final class Job {
    /** Where a job is. Only RUNNING holds a permit. */
    public enum State {
        NEW,
        /** Parked, in the queue of its class. */
        WAITING,
        RUNNING,
        /** Without a permit: its thread is blocked elsewhere, it has waited too long, or nothing is enforced. */
        LOOSE,
        DONE
    }

    final RunQueue queue;
    final Thread thread;
    final long arrivedNanos;
    /** Since when it is in this state; for RUNNING, since when the slice runs. */
    long sinceNanos;
    long askAgainNanos;
    long lookedNanos;
    int nrUnanswered;
    boolean begun;
    volatile State state = State.NEW;
    volatile boolean asked;

    /** The kernel's number of the thread, or 0 where it is not known. */
    volatile long kernelThread;
    /** What a probe saw last, and when; its own business. */
    public long seenCpuNanos;
    public long seenNanos;

    Job(RunQueue queue, Thread thread, long nowNanos) {
        this.queue = queue;
        this.thread = thread;
        this.arrivedNanos = nowNanos;
        this.sinceNanos = nowNanos;
        this.lookedNanos = nowNanos;
    }

    public State state() {
        return state;
    }

    public Thread thread() {
        return thread;
    }

    public WorkClass workClass() {
        return queue.workClass();
    }

    public long kernelThread() {
        return kernelThread;
    }

    public String className() {
        return queue.workClass().name();
    }

    /** Whether it should give up its permit, or get one, at its next yield point. */
    public boolean asked() {
        return asked;
    }

    void become(State newState, long nowNanos) {
        state = newState;
        sinceNanos = nowNanos;
    }

    @Override
    public String toString() {
        return className() + " " + state + " on " + (thread == null ? "no thread" : thread.getName());
    }
}
