package quartier.degrade.config;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.tomlj.Toml;
import org.tomlj.TomlParseError;
import org.tomlj.TomlParseResult;
import quartier.degrade.core.Glob;
import quartier.degrade.core.Rule;
import quartier.degrade.core.Settings;
import quartier.degrade.core.WorkClass;
import quartier.degrade.core.WorkClass.Admission;
import quartier.degrade.core.policy.Curve;
import quartier.degrade.core.policy.Fair;
import quartier.degrade.core.policy.Policy;
import quartier.degrade.core.policy.Priority;
import quartier.degrade.core.policy.Target;
import quartier.degrade.core.policy.Weighted;

/** Reads the file. All that is wrong is said at once; a file with anything wrong is not used. */
public final class ConfigReader {
    private static final long DEFAULT_PROFILE_NANOS = 5_000_000_000L;
    /** Until the next one has woken up, the CPU of the last would have nothing to do. */
    private static final int SPARE_PERMITS = 1;
    /** The class of what no rule fits. */
    public static final String OTHER = "other";

    private static final long AGEING_NANOS = 100_000_000;
    private static final int LOAD_MOST = 1_000_000;
    private static final Pattern POINT = Pattern.compile("[^\\s#:]+#[^\\s#:]+(:\\d+( (entry|loop))?)?");
    private static final Map<String, Settings.Mode> MODES =
            Map.of("on", Settings.Mode.ON, "dry-run", Settings.Mode.DRY_RUN, "off", Settings.Mode.OFF);

    /** Makes a policy of the file, once the names of the classes are known; null if it cannot, which is a problem. */
    private interface PolicyReader {
        Supplier<Policy> read(Section file, Set<String> classNames);
    }

    private static final Map<String, PolicyReader> POLICIES = Map.of(
            "fair", (file, names) -> Fair::new,
            "weighted", (file, names) -> Weighted::new,
            "priority", ConfigReader::priority,
            "protect", ConfigReader::protect,
            "curve", ConfigReader::curve);

    /** Their own tables, and the keys of these. */
    private static final Map<String, List<String>> POLICY_TABLES = Map.of(
            "priority", List.of("ageing_ms"),
            "protect", List.of("class", "p95_ms"),
            "curve", List.of("class", "load", "points"));

    private final List<String> problems = new ArrayList<>();
    private final int nrCpus;

    private ConfigReader(int nrCpus) {
        this.nrCpus = nrCpus;
    }

    /** @param nrCpus what the number of permits follows if the file does not say it */
    public static Config read(Path file, int nrCpus) throws ConfigException {
        try {
            return parse(Files.readString(file), file.toString(), nrCpus);
        } catch (IOException | SecurityException thrown) {
            String why = thrown.getClass().getSimpleName() + ": " + thrown.getMessage();
            throw new ConfigException(
                    List.of(file + ": cannot be read (" + why + "); give the path of a file that this user may read"));
        }
    }

    public static Config parse(String text, String fileName, int nrCpus) throws ConfigException {
        return new ConfigReader(nrCpus).parse(text, fileName);
    }

    private Config parse(String text, String fileName) throws ConfigException {
        TomlParseResult result = Toml.parse(text);
        for (TomlParseError error : result.errors()) {
            problems.add(fileName + ":" + error.position().line() + ":" + error.position().column() + ": "
                    + error.getMessage());
        }
        refuse();
        Section file = new Section(result, fileName, problems);
        long waitMaxNanos = file.millisAsNanos("max_wait_ms").orElse(Settings.WAIT_MAX_NANOS);
        List<WorkClass> classes = classes(file.sections("class"), waitMaxNanos);
        Set<String> names = new HashSet<>(classes.stream().map(WorkClass::name).toList());
        PolicyReader policyReader = file.word("policy", POLICIES, POLICIES.get("fair"));
        Supplier<Policy> policy = policyReader == null ? null : policyReader.read(file, names);
        lookAtPolicyTables(file);
        Optional<Integer> permits = file.whole("permits", 1, 4096);
        long sliceNanos = sliceNanos(file);
        refuseWaitBelowSlice(file, sliceNanos, waitMaxNanos);
        Settings.Mode mode = file.word("mode", MODES, Settings.Mode.ON);
        OptionalInt metricsPort = file.whole("metrics_port", 0, 65535).map(OptionalInt::of).orElse(OptionalInt.empty());
        long unmatchedAfterNanos = 1_000_000_000L * file.whole("unmatched_after_s", 1, 86_400).orElse(60);
        Optional<Section> weave = file.section("weave");
        List<Glob> include = weave.map(ConfigReader::include).orElse(List.of());
        List<Glob> exclude = weave.map(section -> section.texts("exclude", Glob::className)).orElse(List.of());
        boolean leafLoops = weave.map(section -> section.truth("leaf_loops", false)).orElse(false);
        Set<String> points = weave.map(this::points).orElse(Set.of());
        long profileNanos = weave.flatMap(section -> section.number("profile_s", 0, 3600))
                .map(s -> Math.round(s * 1e9))
                .orElse(points.isEmpty() ? DEFAULT_PROFILE_NANOS : 0L);
        if (!points.isEmpty() && profileNanos > 0) {
            weave.get().problem("profile_s", "points are given, so there are none to choose: take out points or profile_s");
        }
        weave.ifPresent(Section::refuseOthers);
        file.refuseOthers();
        refuse();
        Settings settings = new Settings(
                permits.orElse(nrCpus + SPARE_PERMITS), permits.isEmpty(), sliceNanos, waitMaxNanos, mode, policy, classes);
        return new Config(settings, include, exclude, leafLoops, points, profileNanos, metricsPort, unmatchedAfterNanos);
    }

    /** What another policy needs may stay there while it is not used. Where none is named, somebody takes one for used that is not. */
    private static void lookAtPolicyTables(Section file) {
        POLICY_TABLES.forEach((name, keys) -> {
            Optional<Section> table = file.section(name);
            table.ifPresent(found -> {
                keys.forEach(found::has);
                found.refuseOthers();
            });
            if (table.isPresent() && !file.has("policy")) {
                file.problem(name, "[" + name + "] does nothing, for no policy is named, and that is fair: add policy = \"" + name
                        + "\" above the first table, or take [" + name + "] out");
            }
        });
    }

    /** To name what never is woven is a mistake. */
    private static List<Glob> include(Section weave) {
        return weave.texts("include", text -> {
            if (Config.NEVER_WOVEN.stream().anyMatch(text::startsWith)) {
                weave.problem("include", "\"" + text + "\" is never woven, for the agent itself runs on it: take it out");
            }
            return Glob.className(text);
        });
    }

    private Set<String> points(Section weave) {
        List<String> points = weave.texts("points", String::strip);
        for (String point : points) {
            if (!POINT.matcher(point).matches()) {
                weave.problem("points", "\"" + point + "\" is no yield point: write Class#method, Class#method:line, or the "
                        + "whole line as `quartier degrade points PID` shows it");
            }
        }
        return Set.copyOf(points);
    }

    private void refuse() throws ConfigException {
        if (!problems.isEmpty()) {
            // What is read for two reasons is wrong once.
            throw new ConfigException(problems.stream().distinct().toList());
        }
    }

    private List<WorkClass> classes(List<Section> sections, long waitMaxNanos) {
        List<WorkClass> classes = new ArrayList<>();
        Set<String> names = new HashSet<>();
        WorkClass takesAll = null;
        double sharesSum = 0;
        for (Section section : sections) {
            WorkClass workClass = workClass(section, waitMaxNanos);
            if (!names.add(workClass.name())) {
                section.problem("name", "there are two classes \"" + workClass.name() + "\"; give one another name");
            }
            if (takesAll != null) {
                section.problem("name", "class \"" + workClass.name() + "\" is never reached: \"" + takesAll.name()
                        + "\" before it has no rule and takes every request; put that one last");
            }
            WorkClass same = sameRule(classes, workClass.rule());
            if (takesAll == null && same != null) {
                section.problem("name", "class \"" + workClass.name() + "\" is never reached: \"" + same.name()
                        + "\" before it has the same rule; give one another, or put them together");
            }
            if (workClass.rule().equals(Rule.ANY)) {
                takesAll = workClass;
            } else if (workClass.name().equals(OTHER)) {
                section.problem("name", "\"" + OTHER + "\" is the class of what no rule fits; give it no rule, or another name");
            }
            sharesSum += workClass.minimumShare();
            if (sharesSum >= 1 && workClass.minimumShare() > 0) {
                section.problem("minimum_share", "the minimum shares come to " + sharesSum
                        + " with this one, and must stay below 1");
            }
            classes.add(workClass);
        }
        if (takesAll == null && !names.contains(OTHER)) {
            classes.add(WorkClass.plain(OTHER));
        }
        return classes;
    }

    private static WorkClass sameRule(List<WorkClass> classes, Rule rule) {
        return classes.stream().filter(before -> before.rule().equals(rule)).findFirst().orElse(null);
    }

    private WorkClass workClass(Section section, long waitMaxNanos) {
        Optional<String> name = section.text("name");
        if (name.isEmpty() || name.get().isBlank()) {
            section.problem("name", "a class has no name: add name = \"...\"");
        }
        Rule rule = new Rule(
                section.texts("paths", text -> path(section, text)),
                section.texts("methods", method -> method),
                section.named("headers", Glob::path),
                section.texts("handlers", Glob::className));
        Admission unbounded = Admission.UNBOUNDED;
        Optional<Long> queueMaxNanos = section.millisAsNanos("max_queue_ms");
        queueMaxNanos.ifPresent(nanos -> refuseQueueAboveWait(section, nanos, waitMaxNanos));
        Admission admission = new Admission(
                section.whole("queue", 0, 1_000_000).orElse(unbounded.queueMax()),
                queueMaxNanos.orElse(unbounded.waitMaxNanos()),
                section.whole("reject_code", 400, 599).orElse(unbounded.rejectCode()),
                section.whole("retry_after_s", 0, 86_400).orElse(unbounded.retryAfterSeconds()));
        WorkClass workClass = new WorkClass(
                name.orElse("?"),
                rule,
                section.number("weight", 0.001, 1000).orElse(1.0),
                section.number("minimum_share", 0, 0.999).orElse(0.0),
                section.whole("priority", -1000, 1000).orElse(0),
                admission);
        section.refuseOthers();
        return workClass;
    }

    /** The path of a request to the server itself is *, all others begin with /. */
    private static Glob path(Section section, String text) {
        if (!text.startsWith("/") && !text.startsWith("**") && !text.equals("*")) {
            String meant = (text.startsWith("*") ? "*" : "/") + text;
            section.problem("paths", "\"" + text + "\" fits no path, for each begins with /: write \"" + meant + "\"");
        }
        return Glob.path(text);
    }

    private static Supplier<Policy> priority(Section file, Set<String> classNames) {
        Optional<Section> section = file.section("priority");
        long ageingNanos = section.flatMap(found -> found.millisAsNanos("ageing_ms")).orElse(AGEING_NANOS);
        return () -> new Priority(ageingNanos);
    }

    private static Supplier<Policy> protect(Section file, Set<String> classNames) {
        Optional<Section> section = file.section("protect");
        if (section.isEmpty()) {
            file.problem("policy", "protect needs [protect] with class and p95_ms");
            return null;
        }
        String name = className(section.get(), "class", classNames);
        Optional<Long> p95Nanos = section.get().millisAsNanos("p95_ms");
        if (!section.get().has("p95_ms")) {
            file.problem("protect", "[protect] needs p95_ms, the latency to keep below");
        }
        p95Nanos.ifPresent(nanos -> refuseBelowSlice(file, section.get(), "p95_ms", nanos));
        return () -> Target.protect(name, p95Nanos.orElseThrow());
    }

    private static Supplier<Policy> curve(Section file, Set<String> classNames) {
        Optional<Section> section = file.section("curve");
        if (section.isEmpty()) {
            file.problem("policy", "curve needs [curve] with class, load and points");
            return null;
        }
        String name = className(section.get(), "class", classNames);
        String load = className(section.get(), "load", classNames);
        List<Curve.Point> points = new ArrayList<>();
        for (double[] pair : section.get().pairs("points")) {
            points.add(new Curve.Point(load(section.get(), pair[0]), section.get().millisAsNanos("points", "a p95", pair[1])));
        }
        if (name.equals(load)) {
            section.get().problem("load", "load is the class itself: name the one whose number the curve is over");
        }
        try {
            Curve curve = new Curve(points);
            refuseImpossible(file, section.get(), curve);
            return () -> Target.curve(name, load, curve);
        } catch (IllegalArgumentException thrown) {
            section.get().problem("points", thrown.getMessage() + ": write points = [[load, p95_ms], ...]");
            return null;
        }
    }

    private static int load(Section section, double nr) {
        if (!(nr >= 0 && nr <= LOAD_MOST && nr % 1 == 0)) {
            section.problem("points", "a load of " + Section.plain(nr) + " is no number of requests: write a whole one, 0 to " + LOAD_MOST);
        }
        return (int) nr;
    }

    private static void refuseImpossible(Section file, Section section, Curve curve) {
        Curve.Point before = curve.points().get(0);
        for (Curve.Point point : curve.points()) {
            if (point.latencyNanos() < before.latencyNanos()) {
                section.problem("points", "the curve cannot hold at load " + point.nrPresent() + ": "
                        + millis(point.latencyNanos()) + " ms there is less than the " + millis(before.latencyNanos())
                        + " ms at load " + before.nrPresent() + ", and more load makes nobody faster; let it rise or stay");
            }
            before = point;
        }
        refuseBelowSlice(file, section, "points", curve.points().get(0).latencyNanos());
    }

    /** After max_wait_ms whoever waits runs. A wait that is to end otherwise, with somebody's slice or by being sent away, must end before. */
    private static void refuseWaitBelowSlice(Section file, long sliceNanos, long waitMaxNanos) {
        if (waitMaxNanos < sliceNanos) {
            file.problem("max_wait_ms", "max_wait_ms of " + millis(waitMaxNanos) + " is less than a slice of " + millis(sliceNanos)
                    + " ms: whoever waits would run before anybody hands a permit on; raise max_wait_ms, or lower slice_ms");
        }
    }

    private static void refuseQueueAboveWait(Section section, long queueMaxNanos, long waitMaxNanos) {
        if (queueMaxNanos > waitMaxNanos) {
            section.problem("max_queue_ms", "max_queue_ms of " + millis(queueMaxNanos) + " would send nobody away: whoever has"
                    + " waited for the " + millis(waitMaxNanos) + " ms of max_wait_ms begins; lower max_queue_ms, or raise"
                    + " max_wait_ms");
        }
    }

    /** Whoever comes may have to wait for a slice of each permit to end. */
    private static void refuseBelowSlice(Section file, Section section, String key, long targetNanos) {
        long sliceNanos = sliceNanos(file);
        if (targetNanos < sliceNanos) {
            section.problem(key, "a p95 of " + millis(targetNanos) + " ms cannot hold: a request may wait for a slice of "
                    + millis(sliceNanos) + " ms before it begins; raise the target, or lower slice_ms");
        }
    }

    private static long sliceNanos(Section file) {
        return file.millisAsNanos("slice_ms").orElse(Settings.SLICE_NANOS);
    }

    private static String millis(long nanos) {
        return nanos % 1_000_000 == 0 ? String.valueOf(nanos / 1_000_000) : String.valueOf(nanos / 1e6);
    }

    private static String className(Section section, String key, Set<String> classNames) {
        Optional<String> name = section.text(key);
        if (name.isEmpty()) {
            section.problem(key, key + " is missing: it names a class");
        } else if (!classNames.contains(name.get())) {
            section.problem(key, "there is no class \"" + name.get() + "\"; there are "
                    + String.join(", ", new java.util.TreeSet<>(classNames)));
        }
        return name.orElse("");
    }
}
