package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Deadlocks are hunted: one permit, and requests that hold at their yield points what others want. */
@Timeout(240)
class HuntTest {
    private static final List<String> POLICIES = List.of("fair", "weighted", "priority", "protect", "curve");
    private static final int NR_CLIENTS = 10;
    private static final int NR_ANSWERS = 400;
    /** Whoever holds something waits no longer than this at once, and whoever wants it no longer than that for each who holds. */
    private static final int WAIT_MAX_MILLIS = 100;
    private static final double BOUND_MILLIS = 5000;

    private static String config(String policy) {
        return """
            policy = "%s"
            permits = 1
            slice_ms = 0.5
            max_wait_ms = %d
            metrics_port = 0
            [protect]
            class = "one"
            p95_ms = 1
            [curve]
            class = "one"
            load = "two"
            points = [[0, 1], [10, 2]]
            [weave]
            include = ["trial.**", "com.sun.org.apache.xerces.**"]
            profile_s = 0
            [[class]]
            name = "one"
            paths = "/hunt"
            weight = 100
            priority = 9
            [[class]]
            name = "two"
            paths = "/hunted"
            """.formatted(policy, WAIT_MAX_MILLIS);
    }

    @Test
    void nobodyStandsStill() throws Exception {
        try (ServerProcess server = new ServerProcess(TomcatMain.class, config(POLICIES.get(0)))) {
            for (String policy : POLICIES) {
                server.configure(config(policy), "reloaded");
                Load load = new Load(server.port)
                        .clients(NR_CLIENTS, "/hunt", NR_ANSWERS)
                        .clients(NR_CLIENTS, "/hunted", NR_ANSWERS)
                        .run();
                assertEquals(List.of(), load.failures());
                System.out.println(policy + ": " + load);
                for (String path : List.of("/hunt", "/hunted")) {
                    assertTrue(load.quantileMillis(path, 1) < BOUND_MILLIS, policy + ": " + load.quantileMillis(path, 1));
                }
            }
            assertTrue(server.metric("yields_total{class=\"two\"}") > 100, server.metrics());
            double nrInTheWay = 0;
            for (String name : List.of("one", "two")) {
                server.awaitMetric("present{class=\"" + name + "\"}", 0);
                double overdue = server.metric("overdue_total{class=\"" + name + "\"}");
                double lent = server.metric("lent_total{class=\"" + name + "\"}");
                System.out.println(name + ": overdue " + overdue + ", lent " + lent);
                nrInTheWay += overdue + lent;
            }
            assertTrue(nrInTheWay > 0, "somebody held what others wanted");
            assertEquals(0, server.metric("faults_total"), server.said());
            assertEquals(0, server.metric("opened_total"), server.said());
        }
    }
}
