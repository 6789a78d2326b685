package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What requests hand to executors and virtual threads. */
@Timeout(240)
class TasksTest {
    private static final int NR = 5;
    private static final int MANY = 1_000_000;

    private static String config(List<String> services) {
        StringBuilder config = new StringBuilder("metrics_port = 0\n[weave]\n"
                + "include = [\"trial.**\", \"com.sun.org.apache.xerces.**\"]\n");
        services.forEach(name -> config.append("[[class]]\nname = \"%s\"\npaths = \"/%s\"\n".formatted(name, name)));
        return config.toString();
    }

    private static void check(Application application, List<String> services) throws Exception {
        try (ServerProcess server = new ServerProcess(application.quick(), config(services))) {
            for (String service : services) {
                for (int request = 0; request < NR; request++) {
                    assertEquals("found 300", server.get("/" + service).body(), service);
                }
                server.awaitMetric("completed_total{class=\"" + service + "\"}", NR);
                // Some executors hand over a task or two of their own.
                double nrParts = server.metric("parts_total{class=\"" + service + "\"}");
                assertTrue(nrParts >= NR && nrParts <= 3 * NR, service + " has " + nrParts + " parts");
            }
            assertEquals("nothing to be seen", server.get("/unseen").body());
            server.awaitMetric("present{class=\"other\"}", 0);
            assertEquals(4, server.metric("parts_total{class=\"other\"}"), "those of a pool that looks at them");
            assertEquals(0, server.metric("faults_total"), server.said());
            assertTrue(!server.said().contains("not followed"), server.said());
        }
    }

    @Test
    void workThatIsHandedOverKeepsItsClass() throws Exception {
        check(Application.of(JdkServerMain.class), List.of("pooled", "scheduled", "joined", "promised"));
    }

    /** JDKs with virtual threads; one that is not there, if there is none. */
    static Stream<Optional<Path>> jdks() throws Exception {
        List<Path> found = Jdks.withVirtualThreads();
        if (found.isEmpty()) {
            System.out.println("skipped: no JDK of 21 or newer beside this one; name one by -Dtrial.java.home=FOLDER");
            return Stream.of(Optional.empty());
        }
        return found.stream().map(Optional::of);
    }

    @ParameterizedTest
    @MethodSource("jdks")
    void virtualThreadsKeepTheirClassToo(Optional<Path> jdk) throws Exception {
        assumeTrue(jdk.isPresent(), "no JDK with virtual threads");
        Application application = Application.of(JdkServerMain.class).on(jdk.get());
        check(application, List.of("pooled", "scheduled", "joined", "promised", "virtual"));
    }

    /** Two carriers and one permit: were they parked in the gate, two requests at most would be here, and one wait. */
    @ParameterizedTest
    @MethodSource("jdks")
    void aVirtualThreadThatWaitsLeavesItsCarrierToOthers(Optional<Path> jdk) throws Exception {
        assumeTrue(jdk.isPresent(), "no JDK with virtual threads");
        Application application = Application.of(JdkServerMain.class, "virtual")
                .on(jdk.get())
                .with("-Djdk.virtualThreadScheduler.parallelism=2")
                .with("-Djdk.virtualThreadScheduler.maxPoolSize=2");
        String config = "permits = 1\nmax_wait_ms = 60000\n" + config(List.of("light", "heavy"));
        try (ServerProcess server = new ServerProcess(application, config)) {
            Load load = new Load(server.port).clients(8, "/light", MANY).clients(8, "/heavy", MANY);
            Thread clients = load.start();
            server.awaitMetric("waiting{class=\"heavy\"}", 3);
            server.awaitMetric("yields_total{class=\"heavy\"}", 3);
            load.stop();
            clients.join();
            assertEquals(List.of(), load.failures());
            server.awaitMetric("present{class=\"heavy\"}", 0);
            // Late once is a busy machine's doing; were it starved for good, nobody would have waited above.
            assertTrue(server.metric("opened_total") <= 1, "nor the controller");
            assertEquals(0, server.metric("faults_total"), server.said());
        }
    }
}
