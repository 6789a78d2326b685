package quartier.degrade.agent;

import java.util.List;
import java.util.OptionalDouble;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import quartier.degrade.core.ClassReport;

/**
 * One figure of each class, for whoever shows them: the metrics and JMX. What is not known is empty.
 *
 * @param name with its unit, if it has one
 * @param isCounter whether it only grows
 */
record Figure(String name, boolean isCounter, String help, Function<ClassReport, OptionalDouble> value) {
    static final List<Figure> ALL = List.of(
            counter("arrived", "Requests that came", ClassReport::nrArrived),
            counter("admitted", "Requests that were let in", ClassReport::nrAdmitted),
            counter("completed", "Requests that were served, or failed by themselves", ClassReport::nrCompleted),
            counter("rejected", "Requests that were sent away", ClassReport::nrRejected),
            counter("yields", "Slices that ended because somebody else was to run", ClassReport::nrYields),
            counter("overdue", "Waits that ended without a permit, after max_wait_ms", ClassReport::nrOverdue),
            counter("lent", "Permits that went on because their thread was blocked elsewhere", ClassReport::nrLent),
            counter("would_wait", "Dry run: requests that would have had to wait", ClassReport::nrWouldWait),
            counter("would_reject", "Dry run: requests that would have been sent away", ClassReport::nrWouldReject),
            counter("moved", "Requests that went to another class when their handler was known", ClassReport::nrMoved),
            counter("parts", "Tasks that ran for requests on threads of their own", ClassReport::nrParts),
            new Figure("held_seconds", true, "Time with a permit", report -> seconds(report.heldNanos())),
            new Figure("waited_seconds", true, "Time in the queue", report -> seconds(report.waitedNanos())),
            gauge("present", "Requests that are here", ClassReport::nrPresent),
            gauge("running", "Of these, the ones with a permit", ClassReport::nrRunning),
            gauge("waiting", "And the ones that wait", ClassReport::nrWaiting),
            gauge("free", "1 if it runs without permits: nothing else is here, or a target is met without holding anybody", report -> report.isFree() ? 1 : 0),
            new Figure("target_p95_seconds", false, "The p95 that a class is held to", report ->
                    report.targetNanos().isPresent() ? seconds(report.targetNanos().getAsLong()) : OptionalDouble.empty()));

    private static Figure counter(String name, String help, ToLongFunction<ClassReport> value) {
        return new Figure(name, true, help, report -> OptionalDouble.of(value.applyAsLong(report)));
    }

    private static Figure gauge(String name, String help, ToLongFunction<ClassReport> value) {
        return new Figure(name, false, help, report -> OptionalDouble.of(value.applyAsLong(report)));
    }

    private static OptionalDouble seconds(long nanos) {
        return OptionalDouble.of(nanos / 1e9);
    }
}
