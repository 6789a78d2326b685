package quartier.degrade.core;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** Which jobs are asked to come by at their next yield point. Under the dispatcher's lock. */
final class Questions {
    /** A question that nobody answers slows down everybody at their points, so it is withdrawn for a while. */
    private static final long ASK_NANOS = 1_000_000;
    private static final int UNANSWERED_MAX = 4;
    private static final long LOOK_AGAIN_MAX_NANOS = 50_000_000;

    private final Set<Job> asked = new LinkedHashSet<>();

    /** Asks, unless it has not been answered of late; withdraws what was asked long ago. */
    void ask(Job job, long nowNanos) {
        if (job.asked) {
            if (nowNanos - job.askAgainNanos >= 0) {
                withdraw(job, nowNanos);
            }
        } else if (job.nrUnanswered == 0 || nowNanos - job.askAgainNanos >= 0) {
            job.asked = true;
            job.askAgainNanos = nowNanos + ASK_NANOS;
            asked.add(job);
        }
    }

    /** Asks whoever has run without a permit for longer than a slice: it is to queue for one. */
    void recall(Set<Job> loose, long sliceNanos, long nowNanos, Probe probe) {
        for (Job job : loose) {
            long quietNanos = nowNanos - Math.max(job.sinceNanos, job.lookedNanos);
            if (job.asked) {
                ask(job, nowNanos);
            } else if (quietNanos >= lookAgainNanos(job, sliceNanos, nowNanos)) {
                job.lookedNanos = nowNanos;
                if (probe.hasRun(job)) {
                    ask(job, nowNanos);
                }
            }
        }
    }

    /** A slice, and the longer the longer it has been loose: hundreds may be blocked for minutes. */
    private static long lookAgainNanos(Job job, long sliceNanos, long nowNanos) {
        long laterNanos = Math.min((nowNanos - job.sinceNanos) / 8, LOOK_AGAIN_MAX_NANOS);
        return Math.max(sliceNanos, laterNanos);
    }

    void withdraw(Job job, long nowNanos) {
        job.asked = false;
        asked.remove(job);
        job.askAgainNanos = nowNanos + (ASK_NANOS << job.nrUnanswered);
        job.nrUnanswered = Math.min(job.nrUnanswered + 1, UNANSWERED_MAX);
    }

    void answer(Job job) {
        job.asked = false;
        job.nrUnanswered = 0;
        asked.remove(job);
    }

    void answerAll() {
        List.copyOf(asked).forEach(this::answer);
    }

    boolean any() {
        return !asked.isEmpty();
    }
}
