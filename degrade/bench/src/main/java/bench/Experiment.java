package bench;

import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
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
    private static final int NR_HEAVY_MOST = 40;

    /** Of an open loop: of what the CPUs can do, what light requests ask for, and all where most heavy ones come. */
    private static final double LIGHT_SHARE = 0.3;
    private static final double OVERLOAD = 1.2;

    /** Of each of three loads, before anything is counted. */
    private static final double WARM_UP_SECONDS = 20;

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

    /** Learns what a request costs and how slow the light service is alone, sets targets by it, and starts all servers. */
    private void begin(List<Variant> variants) throws Exception {
        ServerProcess unmodified = Variant.UNMODIFIED.start(0);
        servers.put(Variant.UNMODIFIED, unmodified);
        warm(unmodified);
        Counted alone = count(unmodified, "closed", 0);
        double aloneMillis = alone.answers().get("/light").quantileMillis(0.95);
        lightCost = alone.serverCpuSeconds / alone.answers().get("/light").nrAnswered();
        Counted beside = count(unmodified, "closed", NR_HEAVY_MOST);
        heavyCost = (beside.serverCpuSeconds - lightCost * beside.answers().get("/light").nrAnswered())
                / beside.answers().get("/heavy").nrAnswered();
        out.printf(Locale.ROOT, "{\"begin\": {\"alone_p95_ms\": %.3f, \"light_cpu_s\": %.6f, \"heavy_cpu_s\": %.6f, "
                        + "\"cpus\": %d, \"java\": \"%s\", \"curve_ms\": [%.1f, %.1f]}}%n",
                aloneMillis, lightCost, heavyCost, cpus(), Runtime.version(),
                Variant.curveMillis(aloneMillis, 0), Variant.curveMillis(aloneMillis, NR_HEAVY_MOST));
        for (Variant variant : variants) {
            if (!servers.containsKey(variant)) {
                ServerProcess server = variant.start(aloneMillis);
                servers.put(variant, server);
                warm(server);
            }
        }
    }

    /**
     * What is compiled is compiled before anything counts. The compiler's threads get a CPU seldom among many others, and the agent
     * chooses its points by what it sees first: so both services run, at first with few clients.
     */
    private void warm(ServerProcess server) throws InterruptedException {
        int[][] clients = {{1, 1}, {6, 6}, {NR_LIGHT, NR_HEAVY_MOST}};
        for (int[] nr : clients) {
            new Clients(server.port(), 0, WARM_UP_SECONDS)
                    .closed(nr[0], "/light")
                    .closed(nr[1], "/heavy")
                    .run(() -> {});
        }
    }

    private static int cpus() {
        return Runtime.getRuntime().availableProcessors();
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
            clientAt.add(ownCpuSeconds());
        });
        return new Counted(answers, serverAt.get(1) - serverAt.get(0), clientAt.get(1) - clientAt.get(0));
    }

    private static double ownCpuSeconds() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
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
