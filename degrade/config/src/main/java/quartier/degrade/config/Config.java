package quartier.degrade.config;

import java.util.List;
import java.util.OptionalInt;
import quartier.degrade.core.Glob;
import quartier.degrade.core.Settings;

/**
 * All that the file says.
 *
 * @param include which classes are woven; empty for all that are neither the JDK's nor the server's
 * @param exclude which are not, whatever else is said
 * @param unmatchedAfterNanos when it is said which classes had no request
 */
public record Config(
        Settings settings,
        List<Glob> include,
        List<Glob> exclude,
        boolean leafLoops,
        OptionalInt metricsPort,
        long unmatchedAfterNanos) {}
