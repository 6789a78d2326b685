package bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.ToDoubleFunction;

/**
 * What settings cost, by hand: two servers that have run for long, one unmodified and one with the agent, and short runs of each
 * setting in random order. How fast a JVM's compiled code has become differs from one JVM to the next, so settings of the agent are
 * best compared with each other, {@code mode = "off"} first.
 *
 * <p>{@code java -Dagent.jar=JAR -cp ... bench.InTurn LIGHT HEAVY CYCLES SECONDS BASE SETTING...}, with lines of the file, such as
 * {@code 'mode = "off"'} or {@code 'policy = "fair"; slice_ms = 4'}, or {@code unmodified}.
 */
final class InTurn {
    private static final String UNMODIFIED = "unmodified";
    /** Until the agent has read its file and the queues are as they will be. */
    private static final double SETTLE_SECONDS = 1.8;

    private final Map<String, List<Run>> runs = new LinkedHashMap<>();
    private final ServerProcess plain;
    private final ServerProcess woven;
    private double lightSeconds;
    private double heavySeconds;

    private record Run(double light, double heavy, double lightP95Millis, double serverCpuSeconds, double clientCpuSeconds,
            double cpuSeconds) {}

    private InTurn() throws Exception {
        plain = new ServerProcess(TomcatMain.class.getName(), null, List.of(), "plain");
        woven = new ServerProcess(TomcatMain.class.getName(), config("mode = \"off\""), List.of(), "plain");
    }

    public static void main(String[] arguments) throws Exception {
        int nrLight = Integer.parseInt(arguments[0]);
        int nrHeavy = Integer.parseInt(arguments[1]);
        int nrCycles = Integer.parseInt(arguments[2]);
        double seconds = Double.parseDouble(arguments[3]);
        List<String> settings = Arrays.asList(arguments).subList(4, arguments.length);
        InTurn trial = new InTurn();
        try {
            trial.warm();
            long seed = System.nanoTime();
            System.err.println("order of settings: seed " + seed);
            Random random = new Random(seed);
            for (int cycle = 0; cycle < nrCycles; cycle++) {
                List<String> order = new ArrayList<>(settings);
                Collections.shuffle(order, random);
                for (String setting : order) {
                    trial.run(setting, nrLight, nrHeavy, seconds);
                }
            }
            settings.forEach(setting -> trial.say(settings.get(0), setting));
        } finally {
            trial.plain.close();
            trial.woven.close();
        }
    }

    /** Both servers, and then it is learned what a request costs. */
    private void warm() throws Exception {
        for (ServerProcess server : List.of(plain, woven)) {
            server.warm(1, 1, 28);
        }
        woven.configure(config("policy = \"fair\""));
        for (ServerProcess server : List.of(plain, woven)) {
            server.warm(6, 6, SETTLE_SECONDS + 20);
        }
        Run light = count(plain, 2, 0, 1, 4);
        Run heavy = count(plain, 0, 2, 1, 4);
        lightSeconds = light.serverCpuSeconds / light.light;
        heavySeconds = heavy.serverCpuSeconds / heavy.heavy;
    }

    private void run(String setting, int nrLight, int nrHeavy, double seconds) throws Exception {
        ServerProcess server = setting.equals(UNMODIFIED) ? plain : woven;
        if (server == woven) {
            woven.configure(config(setting.replace(";", "\n")));
        }
        Run run = count(server, nrLight, nrHeavy, SETTLE_SECONDS, seconds);
        runs.computeIfAbsent(setting, any -> new ArrayList<>()).add(run);
        System.err.printf("%s: light %.0f, heavy %.0f, light p95 %.1f ms, CPU %.2f s, clients' %.2f s%n",
                setting, run.light, run.heavy, run.lightP95Millis, run.serverCpuSeconds, run.clientCpuSeconds);
    }

    private static Run count(ServerProcess server, int nrLight, int nrHeavy, double warmSeconds, double seconds)
            throws InterruptedException {
        List<Double> serverAt = new ArrayList<>();
        List<Double> clientAt = new ArrayList<>();
        Map<String, Clients.Answers> answers = new Clients(server.port(), warmSeconds, seconds)
                .closed(nrLight, "/light")
                .closed(nrHeavy, "/heavy")
                .run(() -> {
                    serverAt.add(server.cpuSeconds());
                    clientAt.add(Clients.cpuSeconds());
                });
        Clients.Answers light = answers.get("/light");
        return new Run(
                light.nrAnswered(),
                answers.get("/heavy").nrAnswered(),
                light.quantileMillis(0.95),
                serverAt.get(1) - serverAt.get(0),
                clientAt.get(1) - clientAt.get(0),
                seconds * Runtime.getRuntime().availableProcessors());
    }

    private double usefulSeconds(Run run) {
        return run.light * lightSeconds + run.heavy * heavySeconds;
    }

    private void say(String base, String setting) {
        System.out.printf("%s: useful work %s, of the CPU that clients left %s, CPU for it %s, light p95 %s%n",
                setting,
                over(base, setting, this::usefulSeconds),
                over(base, setting, run -> usefulSeconds(run) / (run.cpuSeconds - run.clientCpuSeconds)),
                over(base, setting, run -> run.serverCpuSeconds / usefulSeconds(run)),
                over(base, setting, Run::lightP95Millis));
    }

    /** The median of the ratios of each cycle, and the middle half of them. */
    private String over(String base, String setting, ToDoubleFunction<Run> value) {
        List<Run> bases = runs.get(base);
        List<Run> those = runs.get(setting);
        double[] ratios = new double[those.size()];
        for (int at = 0; at < ratios.length; at++) {
            ratios[at] = value.applyAsDouble(those.get(at)) / value.applyAsDouble(bases.get(at));
        }
        Arrays.sort(ratios);
        int nr = ratios.length;
        return String.format("%.3f (%.3f to %.3f)", ratios[nr / 2], ratios[nr / 4], ratios[3 * nr / 4]);
    }

    private static String config(String head) {
        String target = """

            [protect]
            class = "light"
            p95_ms = %s
            """.formatted(System.getProperty("p95", "54"));
        return head + (head.contains("policy") ? target : "") + Variant.SERVICES;
    }
}
