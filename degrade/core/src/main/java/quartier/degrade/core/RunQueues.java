package quartier.degrade.core;

import java.util.ArrayList;
import java.util.List;

/** The classes of work that are in operation, which of them a request is of, and who waits in any. Written under the dispatcher's lock. */
final class RunQueues {
    private final List<RunQueue> all = new ArrayList<>();
    /** Read without the lock. */
    private volatile Classifier classifier;
    private int nrWaiting;
    /** Since when anybody waits, if somebody does. */
    private long contendedNanos;

    /** Other classes from now on. One that is not among them goes, unless jobs of it are here. */
    void configure(List<WorkClass> classes) {
        for (WorkClass workClass : classes) {
            RunQueue queue = find(workClass.name());
            if (queue == null) {
                all.add(new RunQueue(workClass));
            } else {
                queue.configure(workClass);
                queue.virtualNanos = 0;
                queue.recentNanos = 0;
            }
        }
        all.removeIf(queue -> queue.nrPresent == 0 && queue.nrParts == 0 && !classes.contains(queue.workClass()));
        classifier = new Classifier(classes.stream().map(workClass -> find(workClass.name())).toList());
    }

    private RunQueue find(String name) {
        for (RunQueue queue : all) {
            if (queue.workClass().name().equals(name)) {
                return queue;
            }
        }
        return null;
    }

    /** A job comes whose class may have gone while it was on its way here. */
    void include(RunQueue queue) {
        if (!all.contains(queue)) {
            all.add(queue);
        }
    }

    /** A job waits from now on; in the middle of its turn, before others begin theirs. */
    void add(Job job, boolean isInTurn, long nowNanos) {
        job.become(Job.State.WAITING, nowNanos);
        job.queue.add(job, isInTurn);
        job.queue.nrQueued += job.begun ? 0 : 1;
        contendedNanos = nrWaiting == 0 ? nowNanos : contendedNanos;
        nrWaiting++;
    }

    /** The next one of a class waits no longer; there must be one. */
    Job take(RunQueue queue, long nowNanos) {
        Job job = queue.take();
        hasWaited(job, nowNanos);
        return job;
    }

    /** A job waits no longer, if it did. */
    void remove(Job job, long nowNanos) {
        if (job.queue.remove(job)) {
            hasWaited(job, nowNanos);
        }
    }

    private void hasWaited(Job job, long nowNanos) {
        nrWaiting--;
        job.queue.counts.waitedNanos += nowNanos - job.sinceNanos;
        job.queue.nrQueued -= job.begun ? 0 : 1;
    }

    int nrWaiting() {
        return nrWaiting;
    }

    boolean anyWaits() {
        return nrWaiting > 0;
    }

    /** For how long somebody has waited all the time; somebody must. */
    long contendedForNanos(long nowNanos) {
        return Math.max(0, nowNanos - contendedNanos);
    }

    List<RunQueue> all() {
        return all;
    }

    /** By any thread. */
    Classifier classifier() {
        return classifier;
    }
}
