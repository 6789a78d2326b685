package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Requests that go on after the server's method has returned, on each server that has such. */
@Timeout(240)
class LaterTest {
    private static final int NR = 8;
    private static final double LATER_SECONDS = Services.LATER_MILLIS / 1000.0;
    /** One permit: whoever kept it while it is away would be in everybody's way. */
    private static final String CONFIG = """
        permits = 1
        metrics_port = 0
        [weave]
        include = ["trial.**", "com.sun.org.apache.xerces.**"]
        """ + Stream.of("later", "again", "never", "light")
            .map(name -> "[[class]]\nname = \"%s\"\npaths = \"/**%s\"\n".formatted(name, name))
            .reduce("", String::concat);

    static Stream<Arguments> servers() throws Exception {
        return Stream.of(
                Arguments.of(Application.of(TomcatMain.class), List.of("")),
                Arguments.of(Application.withLibraries(TomcatMain.class, "tomcat11"), List.of("")),
                Arguments.of(Application.in("tomcat9", "trial.Tomcat9Main"), List.of("")),
                Arguments.of(Application.in("jetty", "trial.JettyMain"), List.of("/core", "/ee10", "/ee8")),
                Arguments.of(Application.jettyServlets("ee9"), List.of("/ee9")),
                Arguments.of(Application.jettyServlets("ee11"), List.of("/ee11")));
    }

    @ParameterizedTest
    @MethodSource("servers")
    void aRequestEndsWhenItIsCompleteAndIsOneAllTheTime(Application application, List<String> wheres) throws Exception {
        try (ServerProcess server = new ServerProcess(application.quick(), CONFIG)) {
            checkEnds(server, wheres);
            checkOnes(server, wheres);
            for (String name : List.of("later", "again", "never", "light")) {
                server.awaitMetric("present{class=\"" + name + "\"}", 0);
            }
            assertEquals(0, server.metric("faults_total"), server.said());
            assertFalse(server.said().contains("is not known"), server.said());
        }
    }

    private static void checkEnds(ServerProcess server, List<String> wheres) throws Exception {
        int nrBefore = 0;
        for (String where : wheres) {
            Load load = new Load(server.port).clients(NR, where + "/later", NR).clients(2, where + "/light", 10);
            assertEquals(List.of(), load.run().failures());
            nrBefore += load.nr(where + "/later");
            server.awaitMetric("completed_total{class=\"later\"}", nrBefore);
            assertTrue(server.metric("latency_seconds{class=\"later\",quantile=\"0.5\"}") >= 0.9 * LATER_SECONDS,
                    where + " is not done when its method returns:\n" + server.metrics());
        }
        assertEquals(nrBefore, server.metric("arrived_total{class=\"later\"}"), "each once");
        double held = server.metric("held_seconds_total{class=\"later\"}");
        assertTrue(held < 0.5 * nrBefore * LATER_SECONDS, "held for " + held + " s by who was away");
    }

    private static void checkOnes(ServerProcess server, List<String> wheres) throws Exception {
        int nr = wheres.size();
        for (String where : wheres) {
            for (int request = 0; request < 2; request++) {
                assertEquals("found 300", server.get(where + "/again").body());
            }
            assertTrue(server.get(where + "/never").code() >= 500, "whoever waits for nobody is told so");
        }
        server.awaitMetric("completed_total{class=\"again\"}", 2 * nr);
        server.awaitMetric("completed_total{class=\"never\"}", nr);
        assertEquals(2 * nr, server.metric("arrived_total{class=\"again\"}"), "each once");
        assertEquals(nr, server.metric("arrived_total{class=\"never\"}"));
        assertTrue(server.metric("latency_seconds{class=\"again\",quantile=\"0.5\"}") >= 0.9 * LATER_SECONDS);
    }
}
