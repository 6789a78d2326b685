package quartier.degrade.agent;

import java.util.List;
import java.util.OptionalDouble;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.policy.Aim;

/** Where the figures come from that are of no class. */
record Totals(Dispatcher dispatcher, Weaving weaving, ConfigWatch watch) {
    static final List<Figure<Totals>> ALL = List.of(
            new Figure<>("target_out_of_reach", false, "1 if no order of requests can hold the target", Totals::reach),
            Figure.gauge("permits", "Permits that there are now", of -> of.dispatcher.nrPermits()),
            Figure.gauge("unseen_wait_seconds",
                    "What a request waits before the server's entry, by what threads have waited of late; latencies have it",
                    of -> of.dispatcher.unseenWaitNanos() / 1e9),
            Figure.gauge("classes_woven", "Classes with yield points, since the start", of -> of.weaving.nrClasses()),
            Figure.gauge("points", "Yield points in them", of -> of.weaving.nrPoints()),
            Figure.gauge("classes_left", "Classes that could not be woven", of -> of.weaving.nrRefused()),
            Figure.counter("faults", "Faults of ours; the requests ran on", of -> of.dispatcher.nrFaults()),
            Figure.counter("opened", "Times that the controller was late, and everybody ran", of -> of.dispatcher.nrOpened()),
            Figure.counter("reloads", "Configurations that were taken over", of -> of.watch.nrReloads()),
            Figure.counter("reloads_refused", "Configurations that were wrong", of -> of.watch.nrRefused()));

    private OptionalDouble reach() {
        Aim aim = dispatcher.aim().orElse(null);
        return aim == null ? OptionalDouble.empty() : OptionalDouble.of(aim.outOfReach() ? 1 : 0);
    }
}
