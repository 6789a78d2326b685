package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Latencies as the agent tells them are what clients have. */
@Timeout(240)
class LatencyTest {
    private static final int MANY = 1_000_000;
    private static final String PATH = "/core/light";
    /** One accepts, and at most two of the others wait to look. */
    private static final String NR_THREADS = "6";
    /** What the agent's quantiles are of, and a little more. */
    private static final long WINDOW_MILLIS = 11_000;

    private static Load load(ServerProcess server) {
        return new Load(server.port).clients(24, PATH, MANY);
    }

    /** With few threads nearly all of a latency is before the entry, and nobody waits for a CPU meanwhile: no guess goes by that. */
    @Test
    void whatJettysRequestsWaitForAThreadIsInIt() throws Exception {
        Application jetty = Application.in("jetty", "trial.JettyMain", NR_THREADS);
        try (ServerProcess server = new ServerProcess(jetty, "mode = \"off\"\n" + ServerTest.classes(1, 1))) {
            Load warming = load(server);
            Thread clients = warming.start();
            server.awaitMetric("completed_total{class=\"light\"}", 5000);
            warming.stop();
            clients.join();
            Load counted = load(server);
            clients = counted.start();
            Thread.sleep(WINDOW_MILLIS);
            double toldMillis = 1000 * server.metric("latency_seconds{class=\"light\",quantile=\"0.5\"}");
            double unseenMillis = 1000 * server.metric("unseen_wait_seconds");
            counted.stop();
            clients.join();
            double millis = counted.quantileMillis(PATH, 0.5);
            System.out.printf("p50 %.1f ms, the agent says %.1f, of which some %.1f unseen%n", millis, toldMillis, unseenMillis);
            assertEquals(List.of(), warming.failures());
            assertEquals(List.of(), counted.failures());
            assertTrue(toldMillis > 0.7 * millis && toldMillis < 1.4 * millis, toldMillis + " is not " + millis);
            assertEquals(0, server.metric("faults_total"), server.said());
        }
    }
}
