package quartier.degrade.core;

import java.util.ArrayDeque;
import java.util.function.ToLongFunction;

/** A class of work in operation: who waits, and what it has had. Written under the dispatcher's lock. */
public final class RunQueue {
    private WorkClass workClass;
    /** In the middle of their turn: they go on before others begin theirs. */
    private final ArrayDeque<Job> inTurn = new ArrayDeque<>();
    private final ArrayDeque<Job> waiting = new ArrayDeque<>();
    final Latencies latencies = new Latencies();
    final Counts counts = new Counts();

    /** What happened since the beginning. */
    static final class Counts {
        long arrived;
        long completed;
        long rejected;
        long yields;
        long overdue;
        long lent;
        long wouldWait;
        long wouldReject;
        long heldNanos;
        long waitedNanos;
        long moved;
        long parts;
    }

    /** Jobs that have arrived and not left, waiting or not. */
    int nrPresent;
    /** Parts of them that are on threads of their own. */
    int nrParts;
    /** Of all of these, the ones that no thread has. */
    int nrAway;
    /** Those that may yet turn out to be of another class. */
    int nrUnsure;
    /** Of those that wait, the ones that have not begun. */
    int nrQueued;

    /** Whether it runs as it likes: no other class is here, or nobody has to be held. */
    boolean free;

    /** The policy's clock of this class: its permit time over its weight. */
    public double virtualNanos;
    /** Its permit time of late, decaying. */
    public double recentNanos;

    RunQueue(WorkClass workClass) {
        this.workClass = workClass;
    }

    public WorkClass workClass() {
        return workClass;
    }

    void configure(WorkClass newClass) {
        workClass = newClass;
    }

    public boolean isFree() {
        return free;
    }

    public int nrPresent() {
        return nrPresent;
    }

    /** How many of it want CPUs, or may at any time. */
    public int nrHere() {
        return nrPresent + nrParts - nrAway - nrUnsure;
    }

    public boolean isHere() {
        return nrHere() > 0;
    }

    void add(Job job, boolean isInTurn) {
        (isInTurn ? inTurn : waiting).addLast(job);
    }

    /** Who is next; there must be one. */
    Job take() {
        return inTurn.isEmpty() ? waiting.removeFirst() : inTurn.removeFirst();
    }

    boolean remove(Job job) {
        return waiting.remove(job) || inTurn.remove(job);
    }

    public int nrWaiting() {
        return inTurn.size() + waiting.size();
    }

    /** Since when the one who waits longest does; there must be one. */
    public long headSinceNanos() {
        return ofHeads(job -> job.sinceNanos);
    }

    /** When the one who waits longest arrived; there must be one. */
    public long headArrivedNanos() {
        return ofHeads(job -> job.arrivedNanos);
    }

    private long ofHeads(ToLongFunction<Job> nanos) {
        if (inTurn.isEmpty() || waiting.isEmpty()) {
            return nanos.applyAsLong(inTurn.isEmpty() ? waiting.getFirst() : inTurn.getFirst());
        }
        long ofFirst = nanos.applyAsLong(inTurn.getFirst());
        long ofSecond = nanos.applyAsLong(waiting.getFirst());
        return ofFirst - ofSecond < 0 ? ofFirst : ofSecond;
    }

    public Latencies latencies() {
        return latencies;
    }

    @Override
    public String toString() {
        return workClass.name() + ": " + nrWaiting() + " of " + nrPresent + " wait";
    }
}
