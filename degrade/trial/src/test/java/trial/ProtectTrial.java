package trial;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The seed's experiment, by hand: 30 light clients alone, then beside heavy ones, unmanaged and protected, alternating.
 *
 * <p>{@code java -Dagent.jar=JAR -cp ... trial.ProtectTrial [HEAVY_CLIENTS [ROUNDS]]}
 */
final class ProtectTrial {
    private static final int NR_LIGHT = 30;
    private static final int NR_ANSWERS = 1500;

    private ProtectTrial() {}

    public static void main(String[] arguments) throws Exception {
        int nrHeavy = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 40;
        int nrRounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 3;
        try (ServerProcess server = new ServerProcess(TomcatMain.class, config("mode = \"off\"\n", 1000))) {
            run(server, nrHeavy);
            double aloneMillis = run(server, 0).quantileMillis("/light", 0.95);
            long targetMillis = Math.round(1.4 * aloneMillis);
            System.out.printf("alone: light p95 %.1f ms; target %d ms%n", aloneMillis, targetMillis);
            List<Double> unmanaged = new ArrayList<>();
            List<Double> managed = new ArrayList<>();
            for (int round = 0; round < nrRounds; round++) {
                server.configure(config("mode = \"off\"\n", targetMillis), "reloaded");
                unmanaged.add(show("unmanaged", run(server, nrHeavy)) / aloneMillis);
                server.configure(config("", targetMillis), "reloaded");
                managed.add(show("protected", run(server, nrHeavy)) / aloneMillis);
                System.out.printf("the server itself: light p95 %.1f ms%n",
                        1000 * server.metric("latency_seconds{class=\"light\",quantile=\"0.95\"}"));
            }
            System.out.printf("light p95 over alone, %d heavy: unmanaged %s, protected %s%n",
                    nrHeavy, sorted(unmanaged), sorted(managed));
            server.metrics().lines()
                    .filter(line -> line.matches(".*(lent|overdue|opened|yields|faults)_total.*"))
                    .forEach(System.out::println);
        }
    }

    private static double show(String how, Load load) {
        System.out.println(how + ": " + load + ", failures " + load.failures().size());
        return load.quantileMillis("/light", 0.95);
    }

    static String sorted(List<Double> ratios) {
        return Arrays.toString(ratios.stream().sorted().map(ratio -> String.format("%.2f", ratio)).toArray());
    }

    private static Load run(ServerProcess server, int nrHeavy) throws InterruptedException {
        Load load = new Load(server.port).clients(NR_LIGHT, "/light", NR_ANSWERS);
        return (nrHeavy == 0 ? load : load.clients(nrHeavy, "/heavy", 0)).run();
    }

    private static String config(String mode, long targetMillis) {
        return mode + """
            policy = "protect"
            metrics_port = 0

            [protect]
            class = "light"
            p95_ms = %d

            [weave]
            include = ["trial.**", "com.sun.org.apache.xerces.**"]

            [[class]]
            name = "light"
            paths = "/light"

            [[class]]
            name = "heavy"
            paths = "/heavy"
            """.formatted(targetMillis);
    }
}
