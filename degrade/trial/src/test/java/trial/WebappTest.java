package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A web application that nobody here wrote, with a database and an index in it: classed and scheduled as it is. */
@Timeout(240)
class WebappTest {
    @Test
    void documentsAndSearchesAreClassedAndAnsweredAsEver() throws Exception {
        try (ServerProcess server =
                new ServerProcess(Documents.application().quick(), Documents.config("policy = \"weighted\"\n"))) {
            Documents documents = new Documents(server.port, 100);
            documents.put();
            Load load = documents.load(4, 4, 200, 12);
            assertEquals(List.of(), load.failures());
            server.awaitMetric("present{class=\"heavy\"}", 0);
            server.awaitMetric("completed_total{class=\"light\"}", load.nr("light"));
            server.awaitMetric("completed_total{class=\"heavy\"}", load.nr("heavy"));
            assertTrue(server.metric("yields_total{class=\"heavy\"}") > 0, server.metrics());

            // Less than they take now, and not so little that nobody else gets anything.
            double targetMillis = Math.ceil(800 * server.metric("latency_seconds{class=\"light\",quantile=\"0.95\"}"));
            server.configure(Documents.protect(targetMillis), "reloaded");
            Load held = documents.load(4, 4, 100, 4);
            assertEquals(List.of(), held.failures());
            assertEquals(targetMillis / 1000, server.metric("target_p95_seconds{class=\"light\"}"), 1e-6);
            server.awaitMetric("present{class=\"heavy\"}", 0);
            server.awaitMetric("completed_total{class=\"light\"}", load.nr("light") + held.nr("light"));
            server.awaitMetric("completed_total{class=\"heavy\"}", load.nr("heavy") + held.nr("heavy"));
            assertEquals(0, server.metric("faults_total"), server.said());
        }
    }
}
