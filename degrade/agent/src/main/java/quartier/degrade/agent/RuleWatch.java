package quartier.degrade.agent;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.regex.Pattern;
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
    private static final int VALUE_MAX = 20;
    /** What these say is nobody else's business; that they are there may be why. */
    private static final Pattern SECRET = Pattern.compile("(?i).*(authorization|cookie|token|secret|key|password).*");

    private final Dispatcher dispatcher;
    /** Null once everything is said. */
    private volatile Seen seen;
    /** Classes that had none, and how many they had had before. */
    private volatile Map<String, Long> unmatched = Map.of();

    /** What came since the rules were read. */
    private static final class Seen {
        final long sinceNanos = System.nanoTime();
        final long afterNanos;
        final Map<String, Long> arrivedBefore;
        /** Those that rules ask for. */
        final Set<String> headers = new TreeSet<>(String.CASE_INSENSITIVE_ORDER);
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
        Seen fresh = new Seen(afterNanos, arrived());
        dispatcher.settings().classes().forEach(workClass -> fresh.headers.addAll(workClass.rule().headers().keySet()));
        unmatched = Map.of();
        seen = fresh;
    }

    /** The classes of which it was said that none came, and still none has. */
    List<String> unmatched(List<ClassReport> reports) {
        Map<String, Long> said = unmatched;
        return reports.stream()
                .filter(report -> said.getOrDefault(report.name(), -1L) == report.nrArrived())
                .map(ClassReport::name)
                .toList();
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
        String kind = kind(request, current.headers);
        LongAdder known = current.kinds.get(kind);
        if (known == null && current.kinds.size() < KINDS_MAX) {
            known = current.kinds.computeIfAbsent(kind, key -> new LongAdder());
        }
        if (known != null) {
            known.increment();
        }
    }

    /** A path is somebody else's text: on a line of ours it stays one line. */
    private static String kind(Request request, Set<String> headers) {
        String path = String.valueOf(request.path());
        String shown = cut(path, PATH_MAX);
        String handler = request.handler();
        StringBuilder kind = new StringBuilder(request.method() + " " + shown + (handler == null ? "" : " (" + handler + ")"));
        for (String header : headers) {
            String value = request.header(header);
            if (value != null) {
                kind.append(" [" + header + ": " + (SECRET.matcher(header).matches() ? "..." : cut(value, VALUE_MAX)) + "]");
            }
        }
        return kind.toString().replaceAll("[^ -~]", "?");
    }

    private static String cut(String text, int max) {
        return text.length() > max ? text.substring(0, max) + "..." : text;
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
        Map<String, Long> none = new HashMap<>();
        for (WorkClass workClass : dispatcher.settings().classes()) {
            long before = current.arrivedBefore.getOrDefault(workClass.name(), 0L);
            if (!workClass.rule().equals(Rule.ANY) && arrived.getOrDefault(workClass.name(), 0L) == before) {
                none.put(workClass.name(), before);
                Say.say("class \"" + workClass.name() + "\" had none of " + current.nr.sum()
                        + " requests: its rule (" + described(workClass.rule()) + ") fits nothing that came; there came "
                        + listed(current) + "; correct the rule, or take the class out");
            }
        }
        unmatched = Map.copyOf(none);
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
