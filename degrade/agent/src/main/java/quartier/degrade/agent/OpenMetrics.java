package quartier.degrade.agent;

import java.util.List;
import java.util.Locale;
import java.util.OptionalLong;
import quartier.degrade.core.ClassReport;
import quartier.degrade.core.Dispatcher;

/** Everything that is counted, in the OpenMetrics text format. What is not known has no line. */
final class OpenMetrics {
    private static final String PREFIX = "quartier_degrade_";

    private final Dispatcher dispatcher;
    private final Weaving weaving;
    private final ConfigWatch watch;

    OpenMetrics(Dispatcher dispatcher, Weaving weaving, ConfigWatch watch) {
        this.dispatcher = dispatcher;
        this.weaving = weaving;
        this.watch = watch;
    }

    String text() {
        List<ClassReport> classes = dispatcher.report();
        StringBuilder text = new StringBuilder();
        Figure.ALL.forEach(figure -> figure(text, figure, classes));
        latencies(text, classes);
        dispatcher.aim().ifPresent(aim -> single(
                text, "target_out_of_reach", "gauge", "", "1 if no order of requests can hold the target", aim.outOfReach() ? 1 : 0));
        single(text, "permits", "gauge", "", "Permits that there are now", dispatcher.nrPermits());
        single(text, "unseen_wait_seconds", "gauge", "", "What a request waits before the server's entry, by how late threads wake up; latencies have it", dispatcher.unseenWaitNanos() / 1e9);
        single(text, "classes_woven", "gauge", "", "Classes with yield points, since the start", weaving.nrClasses());
        single(text, "points", "gauge", "", "Yield points in them", weaving.nrPoints());
        single(text, "classes_left", "gauge", "", "Classes that could not be woven", weaving.nrRefused());
        single(text, "faults", "counter", "_total", "Faults of ours; the requests ran on", dispatcher.nrFaults());
        single(text, "opened", "counter", "_total", "Times that the controller was late, and everybody ran", dispatcher.nrOpened());
        single(text, "reloads", "counter", "_total", "Configurations that were taken over", watch.nrReloads());
        single(text, "reloads_refused", "counter", "_total", "Configurations that were wrong", watch.nrRefused());
        return text.append("# EOF\n").toString();
    }

    private static void head(StringBuilder text, String name, String type, String help) {
        text.append("# TYPE ").append(PREFIX).append(name).append(' ').append(type).append('\n');
        text.append("# HELP ").append(PREFIX).append(name).append(' ').append(help).append(".\n");
    }

    private static void line(StringBuilder text, String name, String labels, Object value) {
        text.append(PREFIX).append(name).append(labels).append(' ').append(value).append('\n');
    }

    private static String label(ClassReport report) {
        String name = report.name().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
        return "class=\"" + name + "\"";
    }

    private static void single(StringBuilder text, String name, String type, String suffix, String help, double value) {
        head(text, name, type, help);
        line(text, name + suffix, "", number(value));
    }

    private static void figure(StringBuilder text, Figure figure, List<ClassReport> classes) {
        head(text, figure.name(), figure.isCounter() ? "counter" : "gauge", figure.help());
        String name = figure.name() + (figure.isCounter() ? "_total" : "");
        classes.forEach(report -> figure.value().apply(report)
                .ifPresent(value -> line(text, name, "{" + label(report) + "}", number(value))));
    }

    /** Whole numbers as such: they are exact. */
    private static String number(double value) {
        return value == Math.rint(value) ? String.valueOf((long) value) : String.format(Locale.ROOT, "%.6f", value);
    }

    private static void latencies(StringBuilder text, List<ClassReport> classes) {
        head(text, "latency_seconds", "gauge", "Quantiles of the last ten seconds, with what is waited before the server's entry");
        for (ClassReport report : classes) {
            quantile(text, report, "0.5", report.p50Nanos());
            quantile(text, report, "0.95", report.p95Nanos());
            quantile(text, report, "0.99", report.p99Nanos());
        }
    }

    private static void quantile(StringBuilder text, ClassReport report, String quantile, OptionalLong nanos) {
        nanos.ifPresent(value -> line(
                text, "latency_seconds", "{" + label(report) + ",quantile=\"" + quantile + "\"}", number(value / 1e9)));
    }
}
