package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Requests that wait for something every other moment, for too short a time to lend their permit: with as few permits as there are
 * CPUs, these had nothing to do.
 */
@Timeout(240)
class ChattyTest {
    private static final int NR_CLIENTS = 24;
    private static final int MANY = 1_000_000;
    private static final long LOOK_MILLIS = 3000;

    private static String config(String more) {
        return more + """

            metrics_port = 0
            [weave]
            include = ["trial.**"]
            profile_s = 1
            """;
    }

    private static double answeredIn(ServerProcess server, long millis) throws Exception {
        double before = server.metric("completed_total{class=\"other\"}");
        Thread.sleep(millis);
        return server.metric("completed_total{class=\"other\"}") - before;
    }

    @Test
    void permitsGrowUntilTheCpusAreBusy() throws Exception {
        int nrFew = Runtime.getRuntime().availableProcessors() + 1;
        String few = config("permits = " + nrFew);
        try (ServerProcess server = new ServerProcess(TomcatMain.class, few)) {
            Load load = new Load(server.port).clients(NR_CLIENTS, "/chatty", MANY);
            Thread clients = load.start();
            server.awaitMetric("completed_total{class=\"other\"}", 500);
            double withFew = answeredIn(server, LOOK_MILLIS);
            assertEquals(nrFew, server.metric("permits"), "whoever says how many means it");
            server.configure(config(""), "reloaded");
            server.awaitMetric("permits", nrFew + 2);
            System.out.printf("%.0f answered with %d permits, %.0f with as many as the CPUs want: %.0f%n",
                    withFew, nrFew, answeredIn(server, LOOK_MILLIS), server.metric("permits"));
            server.configure(few, "reloaded");
            assertEquals(nrFew, server.metric("permits"));
            load.stop();
            clients.join();
            assertEquals(List.of(), load.failures());
            assertTrue(server.metric("faults_total") == 0, server.said());
        }
    }
}
