package quartier.degrade.agent;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import quartier.degrade.core.ClassReport;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.Settings;
import quartier.degrade.core.policy.Aim;

/** Everything that there is to see, for the page and for {@code quartier degrade status}. What is not known is null. */
final class View {
    /** Raised when a reader of the old form would go wrong. */
    private static final int FORMAT = 1;

    private final Path file;
    private final Dispatcher dispatcher;
    private final Weaving weaving;
    private final ConfigWatch watch;
    private final RuleWatch rules;
    private volatile String page;
    private List<ClassReport> lastReports = List.of();
    private long lastNanos = System.nanoTime();

    View(Path file, Dispatcher dispatcher, Weaving weaving, ConfigWatch watch, RuleWatch rules) {
        this.file = file;
        this.dispatcher = dispatcher;
        this.weaving = weaving;
        this.watch = watch;
        this.rules = rules;
    }

    void setPage(String address) {
        page = address;
    }

    /** How it is now. Rates are since this was last asked, so one thread does. */
    synchronized Map<String, Object> now() {
        List<ClassReport> reports = dispatcher.report();
        Settings settings = dispatcher.settings();
        long nowNanos = System.nanoTime();
        double seconds = (nowNanos - lastNanos) / 1e9;
        Map<String, Object> view = new LinkedHashMap<>();
        view.put("format", FORMAT);
        view.put("pid", ProcessHandle.current().pid());
        view.put("unix_ms", System.currentTimeMillis());
        view.put("config", file == null ? null : file.toString());
        view.put("page", page);
        view.put("policy", dispatcher.policyName());
        view.put("mode", Modes.word(settings.mode()));
        view.put("permits", dispatcher.nrPermits());
        view.put("slice_ms", Json.millis(settings.sliceNanos()));
        view.put("max_wait_ms", Json.millis(settings.waitMaxNanos()));
        view.put("aim", aim());
        view.put("classes", reports.stream().map(report -> workClass(report, seconds)).toList());
        view.put("unmatched", rules.unmatched(reports));
        view.put("unseen_wait_ms", Json.millis(dispatcher.unseenWaitNanos()));
        view.put("classes_woven", weaving.nrClasses());
        view.put("points", weaving.nrPoints());
        view.put("points_by", Modes.word(weaving.points().by()));
        view.put("classes_left", weaving.nrRefused());
        view.put("faults", dispatcher.nrFaults());
        view.put("opened", dispatcher.nrOpened());
        view.put("reloads", watch.nrReloads());
        view.put("reloads_refused", watch.nrRefused());
        lastReports = reports;
        lastNanos = nowNanos;
        return view;
    }

    private Map<String, Object> aim() {
        Optional<Aim> found = dispatcher.aim();
        if (found.isEmpty()) {
            return null;
        }
        Aim aim = found.get();
        List<List<Object>> points = new ArrayList<>();
        aim.points().forEach(point -> points.add(List.of(point.nrPresent(), Json.millis(point.latencyNanos()))));
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("class", aim.className());
        map.put("load_class", aim.loadClass());
        map.put("load", aim.load());
        map.put("target_ms", Json.millis(aim.targetNanos()));
        map.put("others_share", aim.othersShare());
        map.put("out_of_reach", aim.outOfReach());
        map.put("points", points);
        return map;
    }

    private Map<String, Object> workClass(ClassReport report, double seconds) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("name", report.name());
        map.put("arrived", report.nrArrived());
        map.put("admitted", report.nrAdmitted());
        map.put("completed", report.nrCompleted());
        map.put("rejected", report.nrRejected());
        map.put("yields", report.nrYields());
        map.put("overdue", report.nrOverdue());
        map.put("lent", report.nrLent());
        map.put("would_wait", report.nrWouldWait());
        map.put("would_reject", report.nrWouldReject());
        map.put("held_s", report.heldNanos() / 1e9);
        map.put("waited_s", report.waitedNanos() / 1e9);
        map.put("present", report.nrPresent());
        map.put("running", report.nrRunning());
        map.put("waiting", report.nrWaiting());
        map.put("free", report.isFree());
        ClassReport last = last(report.name());
        boolean isNew = last == null || seconds <= 0;
        map.put("answered_per_s", isNew ? null : (report.nrCompleted() - last.nrCompleted()) / seconds);
        map.put("rejected_per_s", isNew ? null : (report.nrRejected() - last.nrRejected()) / seconds);
        map.put("p50_ms", Json.millis(report.p50Nanos()));
        map.put("p95_ms", Json.millis(report.p95Nanos()));
        map.put("p99_ms", Json.millis(report.p99Nanos()));
        map.put("target_ms", Json.millis(report.targetNanos()));
        return map;
    }

    private ClassReport last(String name) {
        for (ClassReport report : lastReports) {
            if (report.name().equals(name)) {
                return report;
            }
        }
        return null;
    }
}
