package quartier.degrade.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import quartier.degrade.core.Settings;
import quartier.degrade.core.WorkClass;
import quartier.degrade.core.policy.Fair;
import quartier.degrade.core.policy.Target;

class ConfigReaderTest {
    private static final String FULL = """
            policy = "curve"
            mode = "dry-run"
            permits = 3
            slice_ms = 0.5
            max_wait_ms = 200
            metrics_port = 0

            [curve]
            class = "light"
            load = "heavy"
            points = [[0, 50], [40, 100.5]]

            [weave]
            include = ["com.example.**"]
            exclude = "com.example.generated.*"
            leaf_loops = true

            [[class]]
            name = "light"
            paths = ["/fib/*", "/login"]
            methods = ["GET", "HEAD"]
            headers = { X-Tier = "gold" }
            weight = 3
            minimum_share = 0.2
            priority = 5

            [[class]]
            name = "heavy"
            paths = "/search"
            queue = 10
            max_queue_ms = 150
            reject_code = 429
            retry_after_s = 7
            """;

    private static Config parse(String text) throws ConfigException {
        return ConfigReader.parse(text, "a.toml", 2);
    }

    private static List<String> problems(String text) {
        return assertThrows(ConfigException.class, () -> parse(text)).problems();
    }

    @Test
    void everythingThatCanBeSaidIsRead() throws ConfigException {
        Config config = parse(FULL);
        Settings settings = config.settings();
        assertEquals(Settings.Mode.DRY_RUN, settings.mode());
        assertEquals(3, settings.nrPermits());
        assertFalse(settings.permitsMayGrow(), "who says how many means it");
        assertEquals(500_000, settings.sliceNanos());
        assertEquals(200_000_000, settings.waitMaxNanos());
        assertInstanceOf(Target.class, settings.policy().get());
        assertEquals(OptionalInt.of(0), config.metricsPort());
        assertTrue(config.leafLoops());
        assertTrue(config.include().get(0).fits("com.example.a.B"));
        assertTrue(config.exclude().get(0).fits("com.example.generated.C"));
        assertEquals(List.of("light", "heavy", "other"),
                settings.classes().stream().map(WorkClass::name).toList());
        WorkClass heavy = settings.classes().get(1);
        assertEquals(new WorkClass.Admission(10, 150_000_000L, 429, 7), heavy.admission());
        WorkClass light = settings.classes().get(0);
        assertEquals(0.2, light.minimumShare());
        assertEquals(5, light.priority());
        assertTrue(light.rule().headers().get("X-Tier").fits("gold"));
    }

    @Test
    void theReadmesFileIsOne() throws Exception {
        String readme = Files.readString(Path.of("../README.md"));
        String example = readme.substring(readme.indexOf("```toml") + 7, readme.indexOf("```\n\nWithout"));
        assertEquals("light", parse(example).settings().classes().get(0).name());
        // The parts that this policy does not use are right too.
        String curve = example.replace("\"protect\"", "\"curve\"") + "[[class]]\nname = \"heavy\"\npaths = \"/h\"\n";
        assertInstanceOf(Target.class, parse(curve).settings().policy().get());
        parse(example.replace("\"protect\"", "\"priority\""));
    }

    @Test
    void anEmptyFileIsFairBetweenAllOnEveryCpuAndOneIsReady() throws ConfigException {
        Config config = parse("");
        assertInstanceOf(Fair.class, config.settings().policy().get());
        assertEquals(3, config.settings().nrPermits());
        assertTrue(config.settings().permitsMayGrow());
        assertEquals(Settings.Mode.ON, config.settings().mode());
        assertEquals(OptionalInt.empty(), config.metricsPort());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            policy = fair             | a.toml:1:10: |
            polcy = "fair"            | a.toml:1:1: there is no "polcy" here; there are class, curve, max_wait_ms |
            policy = "best"           | a.toml:1:1: policy "best" is none of curve, fair, priority, protect, weighted |
            policy = 7                | a.toml:1:1: policy is not a text in quotes |
            slice_ms = 0              | a.toml:1:1: slice_ms is 0, and may be 0.001 to 3600000 |
            permits = 1.5             | a.toml:1:1: permits is not a whole number |
            mode = "dry"              | a.toml:1:1: mode "dry" is none of dry-run, off, on |
            policy = "protect"        | a.toml:1:1: protect needs [protect] with class and p95_ms |
            policy = "curve"          | a.toml:1:1: curve needs [curve] with class, load and points |
            class = 3                 | a.toml:1:1: class is not a list of tables: write [[class]] |
            [weave]\\nincludes = []    | a.toml:2:1: there is no "includes" here; there are exclude, include, leaf_loops |
            [[class]]\\nweight = 2     | a.toml:1:1: a class has no name |
            [[class]]\\nname = "a"\\npaths = "/a"\\n\\n[[class]]\\nweight = 2 | a.toml:5:1: a class has no name |
            policy = "curve"\\n\\n[curve]\\nload = "other" | a.toml:3:1: class is missing |
            [[class]]\\nname = "a"\\nweight = 0 | a.toml:3:1: weight is 0, and may be 0.001 to 1000 |
            [[class]]\\nname = "a"\\n[[class]]\\nname = "a" | a.toml:4:1: there are two classes "a" |
            [[class]]\\nname = "a"\\n[[class]]\\nname = "b" | a.toml:4:1: class "b" is never reached |
            [[class]]\\nname = "other"\\npaths = "/x" | a.toml:2:1: "other" is the class of what no rule fits |
            [[class]]\\nname = "a"\\npaths = [1] | a.toml:3:10: in paths there is something that is not a text |
            policy = "protect"\\n[protect]\\nclass = "a"\\np95_ms = 5 | a.toml:3:1: there is no class "a"; there are other |
            policy = "protect"\\n[protect]\\nclass = "other" | [protect] needs p95_ms |
            policy = "curve"\\n[curve]\\nclass = "other"\\nload = "other"\\npoints = [[0, 1]] | load is the class itself |
            policy = "curve"\\n[curve]\\nclass = "other"\\nload = "x"\\npoints = [[5, 1], [5, 2]] | a curve's loads must rise |
            policy = "curve"\\n[curve]\\nclass = "other"\\nload = "x"\\npoints = [[0, 9], [5, 8]] | a.toml:5:1: the curve cannot hold at load 5: 8 ms there is less than the 9 ms at load 0 |
            policy = "curve"\\n[curve]\\nclass = "other"\\nload = "x"\\npoints = [[0, 0.5], [5, 8]] | a.toml:5:1: a p95 of 0.5 ms cannot hold |
            slice_ms = 7\\npolicy = "protect"\\n[protect]\\nclass = "other"\\np95_ms = 6 | a.toml:5:1: a p95 of 6 ms cannot hold: a request may wait for a slice of 7 ms |
            max_wait_ms = 1.5         | a.toml:1:1: max_wait_ms of 1.5 is less than a slice of 2 ms |
            slice_ms = 1200           | a.toml:1:1: max_wait_ms of 1000 is less than a slice of 1200 ms |
            [[class]]\\nname = "a"\\nmax_queue_ms = 1001 | a.toml:3:1: max_queue_ms of 1001 would send nobody away: whoever has waited for the 1000 ms of max_wait_ms begins |
            [[class]]\\nname = "a"\\npaths = "/x"\\n[[class]]\\nname = "b"\\npaths = "/x" | a.toml:5:1: class "b" is never reached: "a" before it has the same rule |
            [protect]\\nclass = "other"\\np95_ms = 5 | a.toml:1:1: [protect] does nothing, for no policy is named, and that is fair: add policy = "protect" above |
            [protect]\\nclass = "other"\\np95_ms = 5\\npolicy = "protect" | a.toml:4:1: policy is of the whole file, and here of the table above it |
            [[class]]\\nname = "a"\\npaths = "/x"\\nmode = "off" | a.toml:4:1: mode is of the whole file, and here of the table above it |
            policy = "fair"\\n[curve]\\nclas = "other" | a.toml:3:1: there is no "clas" here; there are class, load, points |
            [[class]]\\nname = "a"\\npaths = ["/x", "login"] | a.toml:3:1: "login" fits no path, for each begins with /: write "/login" |
            [[class]]\\nname = "a"\\npaths = "*.png" | a.toml:3:1: "*.png" fits no path, for each begins with /: write "**.png" |
            policy = "curve"\\n[curve]\\nclass = "other"\\nload = "x"\\npoints = [[0.5, 9], [5, 9]] | a.toml:5:1: a load of 0.5 is no number of requests |
            policy = "curve"\\n[curve]\\nclass = "other"\\nload = "x"\\npoints = [[-1, 9], [5, 9]] | a.toml:5:1: a load of -1 is no number of requests |
            policy = "curve"\\n[curve]\\nclass = "other"\\nload = "x"\\npoints = [[0, 9], [5, inf]] | a.toml:5:1: a p95 is Infinity, and may be 0.001 to 3600000 |
            [weave]\\ninclude = ["com.a.**", "java.util.**"] | a.toml:2:1: "java.util.**" is never woven, for the agent itself runs on it |
            """)
    void whatIsWrongIsSaidWhereItIs(String text, String problem) {
        List<String> problems = problems(text.replace("\\n", "\n"));
        assertTrue(problems.stream().anyMatch(said -> said.contains(problem)), problems.toString());
    }

    @Test
    void whatIsOfTheWholeFileIsKnown() {
        for (String key : Section.KEYS_OF_FILE) {
            assertFalse(problems("x = 1\n" + key + " = []\n").stream().anyMatch(said -> said.contains("no \"" + key + "\"")), key);
        }
        String listed = problems("x = 1\n").get(0);
        for (String key : listed.substring(listed.indexOf("there are ") + 10).split(", ")) {
            assertTrue(Section.KEYS_OF_FILE.contains(key) || List.of("class", "weave", "priority", "protect", "curve").contains(key), key);
        }
    }

    @Test
    void pathsOfAnyKindAreRead() throws ConfigException {
        parse("[[class]]\nname = \"a\"\npaths = [\"/\", \"**.png\", \"*\"]\n");
    }

    /** These are at the edge. A target above max_wait_ms is none of them: it is met as long as it can be. */
    @Test
    void waitsThatEndAsTheyShouldAreRead() throws ConfigException {
        String edges = "slice_ms = 500\nmax_wait_ms = 500\n[[class]]\nname = \"a\"\nmax_queue_ms = 500\n";
        Settings settings = parse("policy = \"protect\"\n" + edges + "[protect]\nclass = \"a\"\np95_ms = 5000\n").settings();
        assertEquals(settings.waitMaxNanos(), settings.classes().get(0).admission().waitMaxNanos());
    }

    @Test
    void minimumSharesMustLeaveSomething() {
        String classes = "[[class]]\nname = \"a\"\npaths = \"/a\"\nminimum_share = 0.6\n"
                + "[[class]]\nname = \"b\"\npaths = \"/b\"\nminimum_share = 0.5\n"
                + "[[class]]\nname = \"c\"\npaths = \"/c\"\n";
        assertEquals(1, problems(classes).size());
        assertTrue(problems(classes).get(0).startsWith("a.toml:8:1: the minimum shares come to 1.1"));
    }

    @Test
    void allProblemsAreSaidAtOnce() {
        assertEquals(2, problems("permits = 0\nslice_ms = -1\n").size());
    }

    @Test
    void aFileThatIsNotThereIsNamed() {
        ConfigException thrown =
                assertThrows(ConfigException.class, () -> ConfigReader.read(Path.of("not-there.toml"), 2));
        assertTrue(thrown.getMessage().startsWith("not-there.toml: cannot be read (NoSuchFile"), thrown.getMessage());
    }

    @Test
    void pointsAreChosenByAProfileOrByHand() throws ConfigException {
        assertEquals(5_000_000_000L, parse("").profileNanos());
        assertEquals(0, parse("[weave]\nprofile_s = 0\n").profileNanos());
        assertEquals(2_500_000_000L, parse("[weave]\nprofile_s = 2.5\n").profileNanos());
        Config fixed = parse("[weave]\npoints = [\"a.B#run:12 loop\", # why\n  \"a.B$C#<clinit>\", \"a.B#x:7\"]\n");
        assertEquals(java.util.Set.of("a.B#run:12 loop", "a.B$C#<clinit>", "a.B#x:7"), fixed.points());
        assertEquals(0, fixed.profileNanos());
        assertTrue(problems("[weave]\npoints = \"run\"\n").get(0).startsWith("a.toml:2:1: \"run\" is no yield point"));
        assertTrue(problems("[weave]\npoints = \"a#b\"\nprofile_s = 1\n").get(0).startsWith("a.toml:3:1: points are given"));
    }

    @Test
    void whoOnlyLooksDoesNothing() throws ConfigException {
        Config seen = parse(FULL).onlySeen();
        assertEquals(Settings.Mode.OFF, seen.settings().mode());
        assertEquals(3, seen.settings().classes().size());
        assertTrue(seen.include().stream().noneMatch(glob -> glob.fits("com.example.a.B")));
        assertTrue(!seen.include().isEmpty() && seen.metricsPort().isEmpty());
        assertTrue(parse(FULL).weavesAs(parse(FULL)) && !parse(FULL).weavesAs(seen));
    }
}
