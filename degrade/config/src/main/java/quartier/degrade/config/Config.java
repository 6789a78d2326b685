package quartier.degrade.config;

import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import quartier.degrade.core.Glob;
import quartier.degrade.core.Settings;

/**
 * All that the file says.
 *
 * @param include which classes are woven; empty for all that are neither the JDK's nor the server's
 * @param exclude which are not, whatever else is said
 * @param points the only yield points that there are to be; empty for all that the rule gives
 * @param profileNanos how long points are counted before it is chosen among them; 0 for not at all
 * @param unmatchedAfterNanos when it is said which classes had no request
 */
public record Config(
        Settings settings,
        List<Glob> include,
        List<Glob> exclude,
        boolean leafLoops,
        Set<String> points,
        long profileNanos,
        OptionalInt metricsPort,
        long unmatchedAfterNanos) {
    /** How names of classes begin that are not woven, whatever is said. The agent's own slow path runs on these: a point there would call itself. */
    public static final List<String> NEVER_WOVEN = List.of("java.", "jdk.", "sun.", "quartier.degrade.");

    /** The same classes of requests, and nothing is done to any of them: only entries are woven. */
    public Config onlySeen() {
        List<Glob> nothing = List.of(Glob.className("-"));
        return new Config(settings.withMode(Settings.Mode.OFF), nothing, List.of(), false, Set.of(), 0, OptionalInt.empty(), unmatchedAfterNanos);
    }

    /** Whether the same is woven. */
    public boolean weavesAs(Config other) {
        return include.equals(other.include)
                && exclude.equals(other.exclude)
                && leafLoops == other.leafLoops
                && points.equals(other.points)
                && profileNanos == other.profileNanos;
    }
}
