package bench;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;

/**
 * The seed's experiment: 30 light clients beside ever more heavy ones, on each variant in turn. A line of JSON for each run and class.
 *
 * <p>{@code java -Dagent.jar=JAR -cp ... bench.Experiment OUT WARM_SECONDS COUNTED_SECONDS ROUNDS HEAVY,... LOOP,... VARIANT,...}
 */
final class Experiment {
    private static final int NR_LIGHT = 30;
    private static final int NR_HEAVY_MOST = Variant.NR_HEAVY_MOST;

    /** Of an open loop: of what the CPUs can do, what light requests ask for, and all where most heavy ones come. */
    private static final double LIGHT_SHARE = 0.3;
    private static final double OVERLOAD = 1.2;

    /** Of each of three loads, before anything is counted. */
    private static final double WARM_UP_SECONDS = 20;
    /** Until an agent has read another file. */
    private static final double RECONFIGURED_SECONDS = 2;
    /** The light service's p95 without heavy requests is the median of so many. */
    private static final int NR_ALONE = 3;

    /** What targets are set by, milliseconds, if not by each server's own p95: -Dbench.alone.ms. */
    private static final double GIVEN_ALONE_MILLIS = Double.parseDouble(System.getProperty("bench.alone.ms", "NaN"));

    /** Whether whoever started this has it run before all servers: -Dbench.clients.first. */
    private static final boolean CLIENTS_FIRST = Boolean.getBoolean("bench.clients.first");

    private final PrintStream out;
    private final double warmSeconds;
    private final double countedSeconds;
    private final Map<Variant, ServerProcess> servers = new EnumMap<>(Variant.class);
    private final Random random;
    /** CPU seconds of one request of each class, as the unmodified server takes it. */
    private double lightCost;
    private double heavyCost;

    private Experiment(PrintStream out, double warmSeconds, double countedSeconds, Random random) {
        this.out = out;
        this.warmSeconds = warmSeconds;
        this.countedSeconds = countedSeconds;
        this.random = random;
    }

    public static void main(String[] arguments) throws Exception {
        double warmSeconds = Double.parseDouble(arguments[1]);
        double countedSeconds = Double.parseDouble(arguments[2]);
        int nrRounds = Integer.parseInt(arguments[3]);
        int[] heavy = Arrays.stream(arguments[4].split(",")).mapToInt(Integer::parseInt).toArray();
        List<String> loops = List.of(arguments[5].split(","));
        List<Variant> variants = Arrays.stream(arguments[6].split(","))
                .map(word -> Variant.valueOf(word.toUpperCase(Locale.ROOT).replace('-', '_')))
                .toList();
        long seed = System.nanoTime();
        System.err.println("arrivals of the open loop, and the order of variants: seed " + seed);
        try (PrintStream out = new PrintStream(Files.newOutputStream(Path.of(arguments[0])), true)) {
            new Experiment(out, warmSeconds, countedSeconds, new Random(seed)).run(nrRounds, heavy, loops, variants);
        }
    }

    private void run(int nrRounds, int[] heavy, List<String> loops, List<Variant> variants) throws Exception {
        try {
            begin(variants);
            List<Variant> order = new ArrayList<>(variants);
            for (int round = 0; round < nrRounds; round++) {
                hold(round);
                for (String loop : loops) {
                    for (int nrHeavy : heavy) {
                        // Whoever comes first or last in a row would have what the machine does then.
                        Collections.shuffle(order, random);
                        for (Variant variant : order) {
                            System.err.printf("round %d, %s loop, heavy %d: %s%n", round, loop, nrHeavy, variant.word());
                            write(variant, loop, nrHeavy, round, count(servers.get(variant), loop, nrHeavy));
                        }
                    }
                }
            }
        } finally {
            for (ServerProcess server : servers.values()) {
                server.close();
            }
        }
    }

    /** Starts all servers. */
    private void begin(List<Variant> variants) throws Exception {
        start(Variant.UNMODIFIED);
        for (Variant variant : variants) {
            if (!servers.containsKey(variant)) {
                start(variant);
            }
        }
    }

    /** What a request costs now: a server that was warmed up a minute ago still compiles, and its heavy requests take half as much again. */
    private void learn() throws Exception {
        ServerProcess unmodified = servers.get(Variant.UNMODIFIED);
        Counted alone = count(unmodified, "closed", 0);
        lightCost = alone.serverCpuSeconds / alone.answers().get("/light").nrAnswered();
        Counted beside = count(unmodified, "closed", NR_HEAVY_MOST);
        heavyCost = (beside.serverCpuSeconds - lightCost * beside.answers().get("/light").nrAnswered())
                / beside.answers().get("/heavy").nrAnswered();
        out.printf(Locale.ROOT, "{\"begin\": {\"light_cpu_s\": %.6f, \"heavy_cpu_s\": %.6f, \"cpus\": %d, \"cpu\": \"%s\", \"clients_first\": %b, "
                        + "\"java\": \"%s\"}}%n",
                lightCost, heavyCost, cpus(), cpuModel(), CLIENTS_FIRST, Runtime.version());
    }

    private void start(Variant variant) throws Exception {
        System.err.println("start " + variant.word());
        ServerProcess server = variant.start();
        servers.put(variant, server);
        server.warm(1, 1, WARM_UP_SECONDS);
        server.warm(6, 6, WARM_UP_SECONDS);
        server.warm(NR_LIGHT, NR_HEAVY_MOST, WARM_UP_SECONDS);
    }

    /** Holds each variant that has a target to one that its own p95 allows, as fast as its server and the machine are now. */
    private void hold(int round) throws Exception {
        learn();
        for (Variant variant : servers.keySet()) {
            if (variant.hasTarget()) {
                hold(variant, servers.get(variant), round);
            }
        }
    }

    private void hold(Variant variant, ServerProcess server, int round) throws Exception {
        double aloneMillis = Double.isNaN(GIVEN_ALONE_MILLIS) ? aloneMillis(variant, server) : GIVEN_ALONE_MILLIS;
        configure(server, variant.config(aloneMillis));
        out.printf(Locale.ROOT, "{\"held\": {\"variant\": \"%s\", \"round\": %d, \"alone_p95_ms\": %.3f, \"p95_ms\": [%.3f, %.3f]}}%n",
                variant.word(), round, aloneMillis,
                variant.targetMillis(aloneMillis, 0), variant.targetMillis(aloneMillis, NR_HEAVY_MOST));
    }

    private static void configure(ServerProcess server, String config) throws Exception {
        server.configure(config);
        Thread.sleep((long) (1000 * RECONFIGURED_SECONDS));
    }

    /** Held to next to nothing. */
    private double aloneMillis(Variant variant, ServerProcess server) throws Exception {
        configure(server, variant.looseConfig());
        double[] alone = new double[NR_ALONE];
        for (int at = 0; at < alone.length; at++) {
            alone[at] = count(server, "closed", 0).answers().get("/light").quantileMillis(0.95);
        }
        Arrays.sort(alone);
        return alone[NR_ALONE / 2];
    }

    private static int cpus() {
        return Runtime.getRuntime().availableProcessors();
    }

    /** As the kernel calls it: code that is nothing but branches is faster by a sixth on some where it happens to lie well. */
    private static String cpuModel() throws IOException {
        try (var lines = Files.lines(Path.of("/proc/cpuinfo"))) {
            return lines.filter(line -> line.startsWith("model name"))
                    .map(line -> line.substring(line.indexOf(':') + 1).strip().replaceAll("[\\\\\"]", ""))
                    .findFirst()
                    .orElse("unknown");
        }
    }

    /** What came of one run. */
    private record Counted(Map<String, Clients.Answers> answers, double serverCpuSeconds, double clientCpuSeconds) {}

    private Counted count(ServerProcess server, String loop, int nrHeavy) throws InterruptedException {
        Clients clients = new Clients(server.port(), warmSeconds, countedSeconds);
        if (loop.equals("open")) {
            clients.open(LIGHT_SHARE * cpus() / lightCost, "/light", random);
            if (nrHeavy > 0) {
                double share = (OVERLOAD - LIGHT_SHARE) * nrHeavy / NR_HEAVY_MOST;
                clients.open(share * cpus() / heavyCost, "/heavy", random);
            }
        } else {
            clients.closed(NR_LIGHT, "/light").closed(nrHeavy, "/heavy");
        }
        List<Double> serverAt = new ArrayList<>();
        List<Double> clientAt = new ArrayList<>();
        Map<String, Clients.Answers> answers = clients.run(() -> {
            serverAt.add(server.cpuSeconds());
            clientAt.add(Clients.cpuSeconds());
        });
        return new Counted(answers, serverAt.get(1) - serverAt.get(0), clientAt.get(1) - clientAt.get(0));
    }

    private void write(Variant variant, String loop, int nrHeavy, int round, Counted counted) {
        counted.answers().forEach((path, answers) -> {
            if (path.equals("/heavy") && nrHeavy == 0) {
                return;
            }
            answers.failures().stream().limit(3).forEach(failure -> System.err.println(variant.word() + ": " + failure));
            out.printf(Locale.ROOT, "{\"run\": {\"variant\": \"%s\", \"loop\": \"%s\", \"heavy\": %d, \"round\": %d, \"class\": \"%s\", "
                            + "\"seconds\": %.3f, \"answered\": %d, \"refused\": %d, \"failed\": %d, "
                            + "\"p50_ms\": %s, \"p95_ms\": %s, \"p99_ms\": %s, "
                            + "\"server_cpu_s\": %.3f, \"client_cpu_s\": %.3f}}%n",
                    variant.word(), loop, nrHeavy, round, path.substring(1),
                    countedSeconds, answers.nrAnswered(), answers.nrRefused(), answers.failures().size(),
                    number(answers.quantileMillis(0.5)), number(answers.quantileMillis(0.95)), number(answers.quantileMillis(0.99)),
                    counted.serverCpuSeconds, counted.clientCpuSeconds);
        });
    }

    /** JSON has no number for what is not known. */
    private static String number(double value) {
        return Double.isNaN(value) ? "null" : String.format(Locale.ROOT, "%.3f", value);
    }
}
