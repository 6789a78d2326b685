package trial;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import java.util.function.ToDoubleFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Whether anything is left over time: rounds of requests, each under another policy, after which the application is reloaded and,
 * every second time, the agent taken out and put in again. After each round it is looked at what the JVM holds.
 *
 * <p>{@code java -Dagent.jar=JAR -cp ... trial.SoakTrial [MINUTES] [without]}; exit status 1 if something grew. {@code without} does
 * the same to a server that has no agent, but for what only an agent can be told: to know what a JVM keeps by itself.
 */
final class SoakTrial {
    private static final int NR_ANSWERS = 3000;
    private static final long FAILS_EVERY_NANOS = 100_000_000;
    /** Of what is held in the second quarter; compiled code and caches fill up in the first. */
    private static final double GROWTH_MAX = 0.05;
    private static final List<String> POLICIES = List.of(
            "policy = \"fair\"",
            "policy = \"weighted\"\nslice_ms = 1",
            "policy = \"protect\"\n[protect]\nclass = \"light\"\np95_ms = 10",
            "mode = \"dry-run\"",
            "policy = \"curve\"\n[curve]\nclass = \"light\"\nload = \"heavy\"\npoints = [[0, 10], [8, 40]]",
            "policy = \"priority\"\npermits = 1",
            "mode = \"off\"");

    /** All there at once: what a collector takes of more that it may take hides the rest. */
    private static final List<String> HEAP = List.of("-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch");

    private final List<Sample> samples = new ArrayList<>();

    /** What a JVM holds after all garbage is gone. */
    private record Sample(double heapMib, double metaspaceMib, double residentMib, int nrClasses, int nrThreads, int nrFiles) {
        private static final Pattern METASPACE =
                Pattern.compile("Both:.*committed, +([\\d.]+) ([KM])B .* used,.* deallocated: .* with ([\\d.]+) ([KM])B");

        static Sample of(String pid) throws IOException, InterruptedException {
            // The last line of a histogram of what is alive: "Total N BYTES".
            String[] total = lastLine(run("jcmd", pid, "GC.class_histogram")).trim().split("\\s+");
            // Not jstat's: there each retransformed class counts as loaded once more, and never as unloaded.
            String classes = run("jcmd", pid, "VM.classloader_stats");
            Path process = Path.of("/proc", pid);
            double residentKib = Files.readAllLines(process.resolve("status")).stream()
                    .filter(line -> line.startsWith("VmRSS:"))
                    .mapToDouble(line -> Double.parseDouble(line.split("\\s+")[1]))
                    .findFirst()
                    .orElseThrow();
            return new Sample(
                    Double.parseDouble(total[2]) / (1 << 20),
                    metaspaceMib(run("jcmd", pid, "VM.metaspace")),
                    residentKib / 1024,
                    nrClasses(classes),
                    nrIn(process.resolve("task")),
                    nrIn(process.resolve("fd")));
        }

        /** Without what changed classes have left free in between: that is for the next ones. */
        private static double metaspaceMib(String told) {
            Matcher both = METASPACE.matcher(told);
            if (!both.find()) {
                throw new AssertionError("not understood:\n" + told);
            }
            return mib(both.group(1), both.group(2)) - mib(both.group(3), both.group(4));
        }

        private static double mib(String number, String unit) {
            return Double.parseDouble(number) / (unit.equals("K") ? 1024 : 1);
        }

        /** Of the line "Total = LOADERS CLASSES CHUNKS BLOCKS". */
        private static int nrClasses(String stats) {
            String total = stats.lines().filter(line -> line.startsWith("Total")).findFirst().orElseThrow();
            return Integer.parseInt(total.split("\\s+")[3]);
        }

        private static int nrIn(Path folder) throws IOException {
            try (Stream<Path> entries = Files.list(folder)) {
                return (int) entries.count();
            }
        }

        @Override
        public String toString() {
            return String.format(Locale.ROOT, "heap %.1f MiB, metaspace %.1f MiB, resident %.0f MiB, %d classes, %d threads, %d files",
                    heapMib, metaspaceMib, residentMib, nrClasses, nrThreads, nrFiles);
        }
    }

    private static String run(String... command) throws IOException, InterruptedException {
        Path bin = Path.of(System.getProperty("java.home"), "bin");
        List<String> words = new ArrayList<>(List.of(command));
        words.set(0, bin.resolve(command[0]).toString());
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + ": " + said);
        }
        return said;
    }

    private static String lastLine(String text) {
        String[] lines = text.strip().split("\n");
        return lines[lines.length - 1];
    }

    private static String config(int round) {
        String policy = POLICIES.get(round % POLICIES.size());
        int table = policy.indexOf('[');
        String keys = table < 0 ? policy : policy.substring(0, table);
        String tables = table < 0 ? "" : policy.substring(table);
        return keys + "\nmetrics_port = 0\n" + tables + """

            [weave]
            include = ["trial.**", "com.sun.org.apache.xerces.**"]
            profile_s = 1

            [[class]]
            name = "light"
            paths = "/web/light"

            [[class]]
            name = "heavy"
            paths = ["/web/heavy", "/web/pooled", "/web/later", "/web/again"]
            """;
    }

    /** Light and heavy requests, such as go on elsewhere, and such as fail by themselves. */
    private static Load load(ServerProcess server, int nrAnswers) {
        Load load = new Load(server.port)
                .clients(3, "/web/light", nrAnswers / 2)
                .clients(3, "/web/heavy", nrAnswers / 2);
        for (String path : List.of("/web/pooled", "/web/later", "/web/again")) {
            load.clients(1, path, nrAnswers / 100);
        }
        return load.clients(1, "/web/failing", nrAnswers / 100, connection -> {
            // Each is told to the server's log.
            LockSupport.parkNanos(FAILS_EVERY_NANOS);
            int code = connection.get("/web/failing").code();
            return code == 500 ? null : Integer.toString(code);
        });
    }

    public static void main(String[] arguments) throws Exception {
        double minutes = arguments.length > 0 ? Double.parseDouble(arguments[0]) : 60;
        boolean without = arguments.length > 1 && arguments[1].equals("without");
        Application application = Application.of(ReloadMain.class);
        for (String option : HEAP) {
            application = application.with(option);
        }
        SoakTrial trial = new SoakTrial();
        try (ServerProcess server = new ServerProcess(application, without ? null : config(0))) {
            long untilNanos = System.nanoTime() + (long) (60e9 * minutes);
            for (int round = 0; System.nanoTime() - untilNanos < 0; round++) {
                String said = without ? trial.roundWithout(server) : trial.round(server, round);
                Sample sample = Sample.of(server.pid());
                trial.samples.add(sample);
                System.out.printf("round %d, %s: %s%n", round, said, sample);
            }
        }
        System.exit(trial.isSteady() ? 0 : 1);
    }

    private String roundWithout(ServerProcess server) throws Exception {
        Load load = load(server, NR_ANSWERS).run();
        String left = server.get("/control/reload").body();
        if (!load.failures().isEmpty()) {
            throw new AssertionError(load.failures());
        }
        return "no agent, class loaders " + left;
    }

    private String round(ServerProcess server, int round) throws Exception {
        server.configure(config(round), "reloaded");
        Load load = load(server, NR_ANSWERS).run();
        double faults = server.metric("faults_total");
        String left = server.get("/control/reload").body();
        if (round % 2 == 1) {
            // What runs meanwhile is answered as ever.
            Load meanwhile = load(server, NR_ANSWERS / 10);
            Thread running = meanwhile.start();
            int status = server.tell("detach", server.pid()) + server.tell("attach", server.pid(), server.config.toString());
            server.awaitMetrics();
            running.join();
            if (status != 0 || !meanwhile.failures().isEmpty()) {
                throw new AssertionError("detach and attach: " + status + ", " + meanwhile.failures() + "\n" + server.said());
            }
        }
        if (!load.failures().isEmpty() || faults > 0) {
            throw new AssertionError(load.failures() + ", faults " + faults + "\n" + server.said());
        }
        return config(round).lines().findFirst().orElse("") + ", class loaders " + left;
    }

    /** The medians of the second quarter of all rounds and of the last. */
    private boolean isSteady() {
        if (samples.size() < 8) {
            throw new AssertionError(samples.size() + " rounds say nothing: give it more minutes");
        }
        boolean steady = true;
        steady &= say("live heap, MiB", Sample::heapMib);
        steady &= say("metaspace, MiB", Sample::metaspaceMib);
        steady &= say("classes", Sample::nrClasses);
        steady &= say("threads", Sample::nrThreads);
        steady &= say("open files", Sample::nrFiles);
        // What the allocator and the compiler keep is not ours to judge by, but worth knowing.
        say("resident, MiB", Sample::residentMib);
        return steady;
    }

    private boolean say(String what, ToDoubleFunction<Sample> value) {
        int quarter = samples.size() / 4;
        double before = median(samples.subList(quarter, 2 * quarter), value);
        double after = median(samples.subList(samples.size() - quarter, samples.size()), value);
        boolean steady = after <= before * (1 + GROWTH_MAX);
        System.out.printf(Locale.ROOT, "%s: %.1f in the second quarter of %d rounds, %.1f in the last: %s%n",
                what, before, samples.size(), after, steady ? "steady" : "grew");
        return steady;
    }

    private static double median(List<Sample> of, ToDoubleFunction<Sample> value) {
        double[] sorted = of.stream().mapToDouble(value).sorted().toArray();
        return sorted[sorted.length / 2];
    }
}
