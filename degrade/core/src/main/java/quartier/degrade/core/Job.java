package quartier.degrade.core;

/**
 * One request on its thread, from the server's entry until it is complete; or a part of one, a task on a thread of its
 * own. Written under the dispatcher's lock.
 */
public final class Job {
    /** Where a job is. Only RUNNING holds a permit. */
    public enum State {
        NEW,
        /** Parked, in the queue of its class. */
        WAITING,
        RUNNING,
        /** Without a permit: its thread is blocked elsewhere, it has waited too long, or nothing is enforced. */
        LOOSE,
        /** No thread has it: its request is incomplete, and goes on later, perhaps on another thread. */
        AWAY,
        DONE
    }

    /** Who waits is in it; another one only for who does not. */
    volatile RunQueue queue;
    /** The last one that had it. */
    volatile Thread thread;
    final long arrivedNanos;
    /** What it was classed by; null for a part, and once it is done. */
    Request request;
    /** A part takes CPUs as its request does, and is none. */
    final boolean part;
    /** Nothing of it is left to do once its thread leaves it. */
    boolean complete;
    /** How long it may wait at once, whatever the settings say. */
    long waitMaxNanos = Long.MAX_VALUE;
    /** Since when it is in this state; for RUNNING, since when the slice runs. */
    long sinceNanos;
    /** Permit time since it was last at the end of its queue. */
    long turnNanos;
    long askAgainNanos;
    long lookedNanos;
    int nrUnanswered;
    boolean begun;
    /** Its class counts it as present. */
    boolean counted;
    /** Which class handles it, and so perhaps its own class, is not known yet. */
    volatile boolean unsure;
    volatile State state = State.NEW;
    volatile boolean asked;

    /** The kernel's number of the thread, or 0 where it is not known. */
    volatile long kernelThread;
    /** What a probe saw last, and when; its own business. */
    public long seenCpuNanos;
    public long seenNanos;

    Job(RunQueue queue, Request request, Thread thread, long nowNanos) {
        this.queue = queue;
        this.request = request;
        this.part = request == null;
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
        queue.nrAway += (newState == State.AWAY ? 1 : 0) - (state == State.AWAY ? 1 : 0);
        state = newState;
        sinceNanos = nowNanos;
    }

    @Override
    public String toString() {
        return className() + " " + state + " on " + (thread == null ? "no thread" : thread.getName());
    }
}
