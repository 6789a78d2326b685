package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Real servers under load, with two classes of work. Latencies are compared within one run, alternating. */
class ServerTest {
    private static final String CLASSES = """
            metrics_port = 0

            [weave]
            include = ["trial.**", "com.sun.org.apache.xerces.**"]

            [[class]]
            name = "light"
            paths = "/light"
            weight = 9

            [[class]]
            name = "heavy"
            paths = "/heavy"
            """;

    private static Load load(ServerProcess server) throws InterruptedException {
        return new Load(server.port, 500, 2500).clients(8, "/light").clients(12, "/heavy").run();
    }

    @ParameterizedTest
    @ValueSource(classes = {JdkServerMain.class, TomcatMain.class})
    void weightsDecideWhoWaits(Class<?> main) throws Exception {
        String off = "policy = \"weighted\"\nmode = \"off\"\n" + CLASSES;
        String on = "policy = \"weighted\"\n" + CLASSES;
        double[] ratios = new double[2];
        try (ServerProcess server = new ServerProcess(main, off)) {
            for (int round = 0; round < ratios.length; round++) {
                Load without = load(server);
                server.configure(on, "reloaded");
                Load with = load(server);
                server.configure(off, "reloaded");
                assertEquals(List.of(), without.failures());
                assertEquals(List.of(), with.failures());
                assertTrue(with.nr("/heavy") > 0, "the others are served too");
                ratios[round] = with.quantileMillis("/light", 0.95) / without.quantileMillis("/light", 0.95);
                System.out.printf("%s: light p95 %.2f of unmanaged; without %s, with %s%n",
                        main.getSimpleName(), ratios[round], without, with);
            }
            assertEquals(0, server.metric("faults_total"), server.said());
            assertTrue(server.metric("yields_total{class=\"heavy\"}") > 100, server.metrics());
            assertEquals(0, server.metric("present{class=\"heavy\"}"));
        }
        for (double ratio : ratios) {
            assertTrue(ratio < 0.6, "light p95 with weights over without: " + ratio);
        }
    }
}
