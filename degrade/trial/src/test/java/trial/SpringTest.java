package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A Spring Boot application, on each of its servers. */
@Timeout(240)
class SpringTest {
    private static String classes(String light, String heavy, String rest) {
        return """
            policy = "weighted"
            metrics_port = 0
            [weave]
            include = ["trial.**", "com.sun.org.apache.xerces.**"]
            [[class]]
            name = "light"
            %s
            [[class]]
            name = "heavy"
            %s
            %s
            """.formatted(light, heavy, rest);
    }

    @ParameterizedTest
    @ValueSource(strings = {"tomcat", "jetty"})
    void requestsAreClassedByPathAndByController(String on) throws Exception {
        String byPath = classes("paths = \"/light\"", "paths = \"/heavy\"", """
            [[class]]
            name = "called"
            paths = "/called"
            [[class]]
            name = "later"
            paths = "/later"
            """);
        try (ServerProcess server = new ServerProcess(Application.in("spring", "trial.SpringMain", on).quick(), byPath)) {
            assertEquals(List.of(), new Load(server.port).clients(8, "/light", 40).clients(8, "/heavy", 16).run().failures());
            server.awaitMetric("completed_total{class=\"light\"}", 40);
            server.awaitMetric("completed_total{class=\"heavy\"}", 16);
            assertTrue(server.metric("yields_total{class=\"heavy\"}") > 0, server.metrics());
            for (int request = 0; request < 3; request++) {
                assertEquals("found 300", server.get("/called").body());
                assertEquals("later", server.get("/later").body());
                assertEquals(500, server.get("/failing").code());
            }
            server.awaitMetric("completed_total{class=\"called\"}", 3);
            server.awaitMetric("completed_total{class=\"later\"}", 3);
            assertEquals(3, server.metric("arrived_total{class=\"called\"}"), "each once, though it comes twice");
            assertTrue(server.metric("parts_total{class=\"called\"}") >= 3, "on a thread of Spring's executor");
            assertTrue(server.metric("latency_seconds{class=\"later\",quantile=\"0.5\"}")
                    >= 0.9 * Services.LATER_MILLIS / 1000);

            server.awaitMetric("present{class=\"heavy\"}", 0);
            double nrLight = server.metric("completed_total{class=\"light\"}");
            double nrHeavy = server.metric("completed_total{class=\"heavy\"}");
            server.configure(
                    classes("handlers = \"trial.*Light*\"", "handlers = \"trial.*Heavy*\"", ""), "reloaded");
            for (int request = 0; request < 3; request++) {
                assertEquals(200, server.get("/a").code());
                assertEquals(200, server.get("/b").code());
            }
            server.awaitMetric("completed_total{class=\"light\"}", nrLight + 3);
            server.awaitMetric("completed_total{class=\"heavy\"}", nrHeavy + 3);
            assertEquals(6, server.metric("moved_total{class=\"other\"}"), "the server itself knows one servlet only");
            assertEquals(0, server.metric("faults_total"), server.said());
        }
    }
}
