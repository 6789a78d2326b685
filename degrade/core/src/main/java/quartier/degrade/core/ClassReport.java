package quartier.degrade.core;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/** What one class has done and is doing. Times in nanoseconds; quantiles of the last ten seconds, absent without requests. */
public record ClassReport(
        String name,
        long nrArrived,
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
        OptionalLong p50Nanos,
        OptionalLong p95Nanos,
        OptionalLong p99Nanos,
        OptionalLong targetNanos) {

    private static final long WINDOW_NANOS = 10_000_000_000L;

    static List<ClassReport> of(Scheduler scheduler, long nowNanos) {
        List<ClassReport> reports = new ArrayList<>();
        for (RunQueue queue : scheduler.queues()) {
            reports.add(of(queue, scheduler.nrRunning(queue), scheduler.policy().targetNanos(queue), nowNanos - WINDOW_NANOS));
        }
        return reports;
    }

    private static ClassReport of(RunQueue queue, int nrRunning, long targetNanos, long sinceNanos) {
        RunQueue.Counts counts = queue.counts;
        return new ClassReport(
                queue.workClass().name(),
                counts.arrived,
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
                nrRunning,
                queue.nrWaiting(),
                queue.latencies.quantile(0.5, sinceNanos),
                queue.latencies.quantile(0.95, sinceNanos),
                queue.latencies.quantile(0.99, sinceNanos),
                targetNanos < 0 ? OptionalLong.empty() : OptionalLong.of(targetNanos));
    }
}
