package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Whole servers that serve on virtual threads, on each JDK that has them. */
@Timeout(240)
class VirtualThreadsTest {
    private static final int MANY = 1_000_000;
    private static final String CONFIG = """
        permits = 1
        metrics_port = 0
        [weave]
        include = ["trial.**", "com.sun.org.apache.xerces.**"]
        [[class]]
        name = "light"
        paths = "/light"
        [[class]]
        name = "heavy"
        paths = "/heavy"
        """;

    static Stream<Arguments> servers() throws Exception {
        return TasksTest.jdks().flatMap(
                jdk -> Stream.of(JdkServerMain.class, TomcatMain.class).map(main -> Arguments.of(main, jdk)));
    }

    @ParameterizedTest
    @MethodSource("servers")
    void requestsAreClassedAndTakeTurnsAndNoneFailsAsTheAgentGoesInAndOut(Class<?> main, Optional<Path> jdk) throws Exception {
        assumeTrue(jdk.isPresent(), "no JDK with virtual threads");
        Application application = Application.of(main, "virtual").on(jdk.get()).quick();
        try (ServerProcess server = new ServerProcess(application, null)) {
            assertEquals("java.lang.VirtualThread", server.get("/thread").body());
            Files.writeString(server.config, CONFIG);
            // Few clients: on a busy machine the JVM that attaches has to get some CPU too.
            Load load = new Load(server.port).clients(3, "/light", MANY).clients(2, "/heavy", MANY);
            Thread clients = load.start();
            for (int round = 0; round < 2; round++) {
                assertEquals(0, server.tell("attach", server.pid(), server.config.toString()), server.said());
                server.awaitMetrics();
                server.awaitMetric("completed_total{class=\"light\"}", 10);
                server.awaitMetric("completed_total{class=\"heavy\"}", 10);
                server.awaitMetric("yields_total{class=\"heavy\"}", 3);
                assertEquals(0, server.metric("arrived_total{class=\"other\"}"), "each is of its path's class");
                assertEquals(0, server.metric("faults_total"), server.said());
                assertEquals(0, server.tell("detach", server.pid()), server.said());
                server.awaitSaid("taken out");
            }
            load.stop();
            clients.join();
            assertEquals(List.of(), load.failures());
        }
    }
}
