package quartier.degrade.agent;

import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.function.ToDoubleFunction;
import quartier.degrade.core.ClassReport;

/**
 * One figure, for whoever shows it: the metrics and JMX. What is not known is empty.
 *
 * @param <S> what it is a figure of
 * @param name with its unit, if it has one
 * @param isCounter whether it only grows
 */
record Figure<S>(String name, boolean isCounter, String help, Function<S, OptionalDouble> value) {
    /** Those of each class. */
    static final List<Figure<ClassReport>> OF_CLASSES = List.of(
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
            counter("held_seconds", "Time with a permit", report -> report.heldNanos() / 1e9),
            counter("waited_seconds", "Time in the queue", report -> report.waitedNanos() / 1e9),
            gauge("present", "Requests that are here", ClassReport::nrPresent),
            gauge("running", "Of these, the ones with a permit", ClassReport::nrRunning),
            gauge("waiting", "And the ones that wait", ClassReport::nrWaiting),
            gauge("free", "1 if it runs without permits: nothing else is here, or a target is met without holding anybody",
                    report -> report.isFree() ? 1 : 0),
            new Figure<>("target_p95_seconds", false, "The p95 that a class is held to",
                    report -> seconds(report.targetNanos())));

    /** One that is always known. */
    static <S> Figure<S> counter(String name, String help, ToDoubleFunction<S> value) {
        return new Figure<>(name, true, help, source -> OptionalDouble.of(value.applyAsDouble(source)));
    }

    /** Another one. */
    static <S> Figure<S> gauge(String name, String help, ToDoubleFunction<S> value) {
        return new Figure<>(name, false, help, source -> OptionalDouble.of(value.applyAsDouble(source)));
    }

    private static OptionalDouble seconds(OptionalLong nanos) {
        return nanos.isPresent() ? OptionalDouble.of(nanos.getAsLong() / 1e9) : OptionalDouble.empty();
    }
}
