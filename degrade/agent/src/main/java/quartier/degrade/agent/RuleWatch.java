package quartier.degrade.agent;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import quartier.degrade.core.ClassReport;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.Request;
import quartier.degrade.core.Rule;
import quartier.degrade.core.WorkClass;

/** Says which classes had no request after a while, and what came instead; then it looks no more. */
final class RuleWatch {
    /** Fewer requests say nothing about rules. */
    private static final int NR_MIN = 100;
    private static final int KINDS_MAX = 12;
    private static final int PATH_MAX = 80;

    private final Dispatcher dispatcher;
    /** Null once everything is said. */
    private volatile Seen seen;

    /** What came since the rules were read. */
    private static final class Seen {
        final long sinceNanos = System.nanoTime();
        final long afterNanos;
        final Map<String, Long> arrivedBefore;
        final Map<String, LongAdder> kinds = new ConcurrentHashMap<>();
        final LongAdder nr = new LongAdder();

        Seen(long afterNanos, Map<String, Long> arrivedBefore) {
            this.afterNanos = afterNanos;
            this.arrivedBefore = arrivedBefore;
        }
    }

    RuleWatch(Dispatcher dispatcher) {
        this.dispatcher = dispatcher;
    }

    void restart(long afterNanos) {
        seen = new Seen(afterNanos, arrived());
    }

    private Map<String, Long> arrived() {
        Map<String, Long> arrived = new HashMap<>();
        for (ClassReport report : dispatcher.report()) {
            arrived.put(report.name(), report.nrArrived());
        }
        return arrived;
    }

    void saw(Request request) {
        Seen current = seen;
        if (current == null) {
            return;
        }
        current.nr.increment();
        String kind = kind(request);
        LongAdder known = current.kinds.get(kind);
        if (known == null && current.kinds.size() < KINDS_MAX) {
            known = current.kinds.computeIfAbsent(kind, key -> new LongAdder());
        }
        if (known != null) {
            known.increment();
        }
    }

    /** A path is somebody else's text: on a line of ours it stays one line. */
    private static String kind(Request request) {
        String path = String.valueOf(request.path());
        String shown = path.length() > PATH_MAX ? path.substring(0, PATH_MAX) + "..." : path;
        String handler = request.handler();
        return (request.method() + " " + shown + (handler == null ? "" : " (" + handler + ")"))
                .replaceAll("[^ -~]", "?");
    }

    /** To be called now and then. */
    void look() {
        Seen current = seen;
        if (current == null
                || current.nr.sum() < NR_MIN
                || System.nanoTime() - current.sinceNanos < current.afterNanos) {
            return;
        }
        seen = null;
        Map<String, Long> arrived = arrived();
        for (WorkClass workClass : dispatcher.settings().classes()) {
            long before = current.arrivedBefore.getOrDefault(workClass.name(), 0L);
            if (!workClass.rule().equals(Rule.ANY) && arrived.getOrDefault(workClass.name(), 0L) == before) {
                Say.say("class \"" + workClass.name() + "\" had none of " + current.nr.sum()
                        + " requests: its rule (" + described(workClass.rule()) + ") fits nothing that came; there came "
                        + listed(current) + "; correct the rule, or take the class out");
            }
        }
    }

    private static String described(Rule rule) {
        List<String> parts = new ArrayList<>();
        add(parts, "paths", rule.paths());
        add(parts, "methods", rule.methods());
        add(parts, "handlers", rule.handlers());
        if (!rule.headers().isEmpty()) {
            parts.add("headers " + rule.headers());
        }
        return String.join(", ", parts);
    }

    private static void add(List<String> parts, String name, List<?> asked) {
        if (!asked.isEmpty()) {
            parts.add(name + " " + asked.stream().map(String::valueOf).collect(Collectors.joining(" or ")));
        }
    }

    private static String listed(Seen current) {
        long nrListed = current.kinds.values().stream().mapToLong(LongAdder::sum).sum();
        long nrOthers = current.nr.sum() - nrListed;
        return current.kinds.entrySet().stream()
                        .sorted(Comparator.comparingLong(kind -> -kind.getValue().sum()))
                        .map(kind -> kind.getValue() + " x " + kind.getKey())
                        .collect(Collectors.joining(", "))
                + (nrOthers > 0 ? ", and " + nrOthers + " x others" : "");
    }
}
