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
    private final Totals totals;

    OpenMetrics(Dispatcher dispatcher, Totals totals) {
        this.dispatcher = dispatcher;
        this.totals = totals;
    }

    String text() {
        List<ClassReport> classes = dispatcher.report();
        StringBuilder text = new StringBuilder();
        Figure.OF_CLASSES.forEach(figure -> figure(text, figure, classes));
        latencies(text, classes);
        Totals.ALL.forEach(total -> total.value().apply(totals).ifPresent(value -> single(text, total, value)));
        return text.append("# EOF\n").toString();
    }

    /** Returns what its lines begin with. */
    private static String head(StringBuilder text, String name, boolean isCounter, String help) {
        text.append("# TYPE ").append(PREFIX).append(name).append(isCounter ? " counter" : " gauge").append('\n');
        text.append("# HELP ").append(PREFIX).append(name).append(' ').append(help).append(".\n");
        return name + (isCounter ? "_total" : "");
    }

    private static void line(StringBuilder text, String name, String labels, Object value) {
        text.append(PREFIX).append(name).append(labels).append(' ').append(value).append('\n');
    }

    private static String label(ClassReport report) {
        String name = report.name().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
        return "class=\"" + name + "\"";
    }

    private static void single(StringBuilder text, Figure<Totals> total, double value) {
        String name = head(text, total.name(), total.isCounter(), total.help());
        line(text, name, "", number(value));
    }

    private static void figure(StringBuilder text, Figure<ClassReport> figure, List<ClassReport> classes) {
        String name = head(text, figure.name(), figure.isCounter(), figure.help());
        classes.forEach(report -> figure.value().apply(report)
                .ifPresent(value -> line(text, name, "{" + label(report) + "}", number(value))));
    }

    /** Whole numbers as such: they are exact. */
    private static String number(double value) {
        return value == Math.rint(value) ? String.valueOf((long) value) : String.format(Locale.ROOT, "%.6f", value);
    }

    private static void latencies(StringBuilder text, List<ClassReport> classes) {
        head(text, "latency_seconds", false, "Quantiles of the last ten seconds, with what is waited before the server's entry");
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
