package quartier.degrade.core;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * What one class has done and is doing. Times in nanoseconds; quantiles of the last ten seconds, absent without requests.
 *
 * @param isFree whether it runs without permits: no other class is here, or nobody has to be held
 */
public record ClassReport(
        String name,
        long nrArrived,
        long nrAdmitted,
        long nrCompleted,
        long nrRejected,
        long nrYields,
        long nrOverdue,
        long nrLent,
        long nrWouldWait,
        long nrWouldReject,
        long heldNanos,
        long waitedNanos,
        long nrMoved,
        long nrParts,
        int nrPresent,
        int nrRunning,
        int nrWaiting,
        boolean isFree,
        OptionalLong p50Nanos,
        OptionalLong p95Nanos,
        OptionalLong p99Nanos,
        OptionalLong targetNanos) {

    static List<ClassReport> of(Scheduler scheduler, long nowNanos) {
        List<ClassReport> reports = new ArrayList<>();
        for (RunQueue queue : scheduler.queues()) {
            reports.add(of(scheduler, queue, nowNanos));
        }
        return reports;
    }

    private static ClassReport of(Scheduler scheduler, RunQueue queue, long nowNanos) {
        long targetNanos = scheduler.policy().targetNanos(queue);
        RunQueue.Counts counts = queue.counts;
        OptionalLong[] latencies = queue.latencies.quantiles(nowNanos, 0.5, 0.95, 0.99);
        return new ClassReport(
                queue.workClass().name(),
                counts.arrived,
                counts.arrived - counts.rejected - queue.nrQueued,
                counts.completed,
                counts.rejected,
                counts.yields,
                counts.overdue,
                counts.lent,
                counts.wouldWait,
                counts.wouldReject,
                counts.heldNanos,
                counts.waitedNanos,
                counts.moved,
                counts.parts,
                queue.nrPresent,
                scheduler.nrRunning(queue),
                queue.nrWaiting(),
                queue.isFree(),
                latencies[0],
                latencies[1],
                latencies[2],
                targetNanos < 0 ? OptionalLong.empty() : OptionalLong.of(targetNanos));
    }
}
