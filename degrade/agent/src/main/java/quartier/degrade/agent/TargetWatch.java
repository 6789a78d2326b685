package quartier.degrade.agent;

import java.util.List;
import java.util.Locale;
import java.util.OptionalLong;
import quartier.degrade.core.ClassReport;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.policy.Aim;

/** Says when a class cannot be held to its target: once, until it is held again. */
final class TargetWatch {
    private final Dispatcher dispatcher;
    private boolean said;

    TargetWatch(Dispatcher dispatcher) {
        this.dispatcher = dispatcher;
    }

    /** To be called now and then. */
    void look() {
        Aim aim = dispatcher.aim().orElse(null);
        boolean outOfReach = aim != null && aim.outOfReach();
        if (outOfReach && !said) {
            Say.say(words(aim));
        }
        said = outOfReach;
    }

    private String words(Aim aim) {
        List<ClassReport> reports = dispatcher.report();
        OptionalLong p95Nanos = reports.stream()
                .filter(report -> report.name().equals(aim.className()))
                .map(ClassReport::p95Nanos)
                .findFirst()
                .orElse(OptionalLong.empty());
        String takes = p95Nanos.isPresent() ? millis(p95Nanos.getAsLong()) : "longer";
        boolean isAlone = reports.stream().allMatch(report -> report.name().equals(aim.className()) || report.nrPresent() == 0);
        String others = isAlone
                ? "nobody else is here"
                : String.format(Locale.ROOT, "all others have but %.0f %% of the permits' time", 100 * aim.othersShare());
        return String.format(Locale.ROOT,
                "class \"%s\" takes %s at p95 where %s are wanted, and %s: no order of requests"
                        + " can hold this; raise the target, send others away at the door (queue, max_queue_ms), or see what it waits for"
                        + " (quartier degrade why %d)",
                aim.className(), takes, millis(aim.targetNanos()), others, ProcessHandle.current().pid());
    }

    private static String millis(long nanos) {
        return String.format(Locale.ROOT, "%.1f ms", nanos / 1e6);
    }
}
