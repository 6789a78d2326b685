package quartier.degrade.agent;

import java.util.List;
import java.util.OptionalDouble;
import java.util.function.Supplier;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.policy.Aim;

/** The figures that are of no class, for whoever shows them: the metrics and JMX. */
final class Totals {
    /**
     * One of them. What is not known is empty.
     *
     * @param name with its unit, if it has one
     * @param isCounter whether it only grows
     */
    record Total(String name, boolean isCounter, String help, Supplier<OptionalDouble> value) {}

    private Totals() {}

    static List<Total> of(Dispatcher dispatcher, Weaving weaving, ConfigWatch watch) {
        return List.of(
                new Total("target_out_of_reach", false, "1 if no order of requests can hold the target", () -> reach(dispatcher)),
                gauge("permits", "Permits that there are now", dispatcher::nrPermits),
                gauge("unseen_wait_seconds",
                        "What a request waits before the server's entry, by what threads have waited of late; latencies have it",
                        () -> dispatcher.unseenWaitNanos() / 1e9),
                gauge("classes_woven", "Classes with yield points, since the start", weaving::nrClasses),
                gauge("points", "Yield points in them", weaving::nrPoints),
                gauge("classes_left", "Classes that could not be woven", weaving::nrRefused),
                counter("faults", "Faults of ours; the requests ran on", dispatcher::nrFaults),
                counter("opened", "Times that the controller was late, and everybody ran", dispatcher::nrOpened),
                counter("reloads", "Configurations that were taken over", watch::nrReloads),
                counter("reloads_refused", "Configurations that were wrong", watch::nrRefused));
    }

    private static OptionalDouble reach(Dispatcher dispatcher) {
        Aim aim = dispatcher.aim().orElse(null);
        return aim == null ? OptionalDouble.empty() : OptionalDouble.of(aim.outOfReach() ? 1 : 0);
    }

    private static Total gauge(String name, String help, Supplier<? extends Number> value) {
        return new Total(name, false, help, () -> OptionalDouble.of(value.get().doubleValue()));
    }

    private static Total counter(String name, String help, Supplier<? extends Number> value) {
        return new Total(name, true, help, () -> OptionalDouble.of(value.get().doubleValue()));
    }
}
