package quartier.degrade.agent;

import java.util.List;
import java.util.Locale;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.function.ToLongFunction;
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
        counter(text, "arrived", "Requests that came", classes, ClassReport::nrArrived);
        counter(text, "completed", "Requests that were served, or failed by themselves", classes, ClassReport::nrCompleted);
        counter(text, "rejected", "Requests that were sent away", classes, ClassReport::nrRejected);
        counter(text, "yields", "Slices that ended because somebody else was to run", classes, ClassReport::nrYields);
        counter(text, "overdue", "Waits that ended without a permit, after max_wait_ms", classes, ClassReport::nrOverdue);
        counter(text, "lent", "Permits that went on because their thread was blocked elsewhere", classes, ClassReport::nrLent);
        counter(text, "would_wait", "Dry run: requests that would have had to wait", classes, ClassReport::nrWouldWait);
        counter(text, "would_reject", "Dry run: requests that would have been sent away", classes, ClassReport::nrWouldReject);
        counter(text, "moved", "Requests that went to another class when their handler was known", classes, ClassReport::nrMoved);
        counter(text, "parts", "Tasks that ran for requests on threads of their own", classes, ClassReport::nrParts);
        secondsCounter(text, "held", "Time with a permit", classes, ClassReport::heldNanos);
        secondsCounter(text, "waited", "Time in the queue", classes, ClassReport::waitedNanos);
        gauge(text, "present", "Requests that are here", classes, ClassReport::nrPresent);
        gauge(text, "running", "Of these, the ones with a permit", classes, ClassReport::nrRunning);
        gauge(text, "waiting", "And the ones that wait", classes, ClassReport::nrWaiting);
        latencies(text, classes);
        seconds(text, "target_p95_seconds", "The p95 that a class is held to", classes, ClassReport::targetNanos);
        dispatcher.aim().ifPresent(aim -> single(
                text, "target_out_of_reach", "gauge", "", "1 if no order of requests can hold the target", aim.outOfReach() ? 1 : 0));
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

    private static String seconds(long nanos) {
        return String.format(Locale.ROOT, "%.6f", nanos / 1e9);
    }

    private static void single(StringBuilder text, String name, String type, String suffix, String help, long value) {
        head(text, name, type, help);
        line(text, name + suffix, "", value);
    }

    private static void counter(
            StringBuilder text, String name, String help, List<ClassReport> classes, ToLongFunction<ClassReport> value) {
        head(text, name, "counter", help);
        classes.forEach(report -> line(text, name + "_total", "{" + label(report) + "}", value.applyAsLong(report)));
    }

    private static void secondsCounter(
            StringBuilder text, String name, String help, List<ClassReport> classes, ToLongFunction<ClassReport> value) {
        head(text, name + "_seconds", "counter", help);
        classes.forEach(report ->
                line(text, name + "_seconds_total", "{" + label(report) + "}", seconds(value.applyAsLong(report))));
    }

    private static void gauge(
            StringBuilder text, String name, String help, List<ClassReport> classes, ToLongFunction<ClassReport> value) {
        head(text, name, "gauge", help);
        classes.forEach(report -> line(text, name, "{" + label(report) + "}", value.applyAsLong(report)));
    }

    private static void seconds(
            StringBuilder text, String name, String help, List<ClassReport> classes, Function<ClassReport, OptionalLong> value) {
        head(text, name, "gauge", help);
        classes.forEach(report -> value.apply(report)
                .ifPresent(nanos -> line(text, name, "{" + label(report) + "}", seconds(nanos))));
    }

    private static void latencies(StringBuilder text, List<ClassReport> classes) {
        head(text, "latency_seconds", "gauge", "Quantiles of the last ten seconds, from the server's entry on");
        for (ClassReport report : classes) {
            quantile(text, report, "0.5", report.p50Nanos());
            quantile(text, report, "0.95", report.p95Nanos());
            quantile(text, report, "0.99", report.p99Nanos());
        }
    }

    private static void quantile(StringBuilder text, ClassReport report, String quantile, OptionalLong nanos) {
        nanos.ifPresent(value -> line(
                text, "latency_seconds", "{" + label(report) + ",quantile=\"" + quantile + "\"}", seconds(value)));
    }
}
