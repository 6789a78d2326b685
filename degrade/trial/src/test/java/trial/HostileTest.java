package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.spi.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Applications, configurations and other agents that make it hard. */
@Timeout(240)
class HostileTest {
    private static final String CONFIG = """
        permits = 1
        metrics_port = 0
        unmatched_after_s = 1
        [weave]
        include = ["trial.**", "com.sun.org.apache.xerces.**"]
        [[class]]
        name = "light"
        paths = ["/light", "/*/light"]
        [[class]]
        name = "heavy"
        paths = ["/heavy", "/*/heavy"]
        """;

    /** One permit: whoever took it along would stop everybody. */
    @ParameterizedTest
    @MethodSource("trial.ServerTest#servers")
    void threadsThatFailOrAreInterruptedOrKilledLeaveNothingBehind(Application application, String where) throws Exception {
        try (ServerProcess server = new ServerProcess(application.quick(), CONFIG)) {
            Load load = new Load(server.port)
                    .clients(3, where + "/light", 20)
                    .clients(2, where + "/heavy", 6)
                    .clients(3, where + "/interrupted", 20)
                    .clients(3, where + "/prodded", 10)
                    .clients(2, where + "/dying", 20)
                    .clients(2, where + "/failing", 20)
                    .run();
            List<String> unexpected = load.failures().stream()
                    .filter(failure -> !failure.startsWith(where + "/dying: ") && !failure.startsWith(where + "/failing: "))
                    .toList();
            assertEquals(List.of(), unexpected);
            assertTrue(load.failures().size() >= 40, "whoever fails or dies is no answer");
            assertEquals(200, server.get(where + "/heavy").code());
            assertNobodyIsLeft(server);
        }
    }

    private static void assertNobodyIsLeft(ServerProcess server) throws Exception {
        for (String name : List.of("light", "heavy", "other")) {
            server.awaitMetric("present{class=\"" + name + "\"}", 0);
            assertEquals(0, server.metric("waiting{class=\"" + name + "\"}"));
            assertEquals(0, server.metric("running{class=\"" + name + "\"}"));
        }
        assertEquals(0, server.metric("faults_total"), server.said());
        assertEquals(0, server.metric("opened_total"), server.said());
    }

    /** All but one of its threads wait in our queue, some to begin: each learns that it was interrupted, and answers. */
    @Test
    void aServersThreadsThatAreShutDownEndTheirRequestsThemselves() throws Exception {
        int nr = 8;
        try (ServerProcess server = new ServerProcess(Application.of(JdkServerMain.class).quick(), CONFIG)) {
            Load load = new Load(server.port).clients(nr, "/stubborn", 2 * nr);
            Thread clients = load.start();
            server.awaitMetric("waiting{class=\"other\"}", nr - 1);
            // Nobody asks again.
            load.stop();
            assertEquals("shut down", server.get("/shutdown").body());
            clients.join();
            assertEquals(List.of(), load.failures());
            assertEquals(nr, load.nr("/stubborn"));
            assertEquals(200, server.get("/heavy").code());
            assertNobodyIsLeft(server);
        }
    }

    @Test
    void aWebApplicationThatIsReloadedIsForgotten() throws Exception {
        try (ServerProcess server = new ServerProcess(Application.of(ReloadMain.class).quick(), CONFIG)) {
            for (int round = 1; round <= 4; round++) {
                Load load = new Load(server.port).clients(2, "/web/heavy", 4).run();
                assertEquals("[]", load.failures().toString());
                assertEquals("left 1 of " + (round + 1), server.get("/control/reload").body());
            }
            assertEquals("found 300", server.get("/web/heavy").body());
            assertTrue(server.metric("classes_woven") > 4, "each time anew");
            assertEquals(0, server.metric("classes_left"), server.metrics());
            assertEquals(0, server.metric("faults_total"), server.said());
        }
    }

    @Test
    void aRuleThatFitsNothingIsSaidWithWhatCame() throws Exception {
        String config = CONFIG + "[[class]]\nname = \"nightly\"\npaths = \"/nigthly/**\"\n";
        try (ServerProcess server = new ServerProcess(Application.of(TomcatMain.class).quick(), config)) {
            // Whoever asks for odd things writes no lines of ours.
            server.get("/%0Aclass%20%22light%22%20had%20none");
            new Load(server.port).clients(2, "/light", 100).clients(1, "/heavy", 10).run();
            server.awaitSaid("class \"nightly\" had none of \\d+ requests: its rule \\(paths /nigthly/\\*\\*\\) fits"
                    + " nothing that came; there came \\d+ x GET /light \\(trial.JakartaServlet\\), \\d+ x GET /heavy"
                    + " \\(trial.JakartaServlet\\), 1 x GET /\\?class \"light\" had none; correct the rule,"
                    + " or take the class out");
            assertFalse(server.said().contains("had none of"), "the others had some: " + server.said());
        }
    }

    @Test
    void aCopyOfOursUnderAnotherNameIsRefused() throws Exception {
        Path copy = Files.createTempDirectory("copy").resolve("another-name.jar");
        Files.copy(ServerProcess.JAR, copy);
        Application both = Application.of(JdkServerMain.class).withAgentAfter(copy);
        try (ServerProcess server = new ServerProcess(both.quick(), CONFIG)) {
            server.awaitSaid("not active: an agent is active in this JVM already: change its configuration, or take it"
                    + " out first");
            assertEquals("[]", new Load(server.port).clients(4, "/light", 20).run().failures().toString());
            server.awaitMetric("completed_total{class=\"light\"}", 20);
            assertEquals(0, server.metric("faults_total"), server.said());
        }
        Files.delete(copy);
        Files.delete(copy.getParent());
    }

    @Test
    void whereAModuleIsMissingItIsNamedAndTheServerRuns() throws Exception {
        Application bare = Application.of(JdkServerMain.class).with("--limit-modules=jdk.httpserver,java.xml,java.instrument");
        try (ServerProcess server = new ServerProcess(bare.quick(), CONFIG.replace("metrics_port = 0", ""))) {
            server.awaitSaid("not active: this JVM has no module java.management");
            assertEquals(200, server.get("/light").code());
        }
    }

    @Test
    void aJvmThatTakesNoAgentSaysWhyAndDoesNotStart(@TempDir Path folder) throws Exception {
        Path image = folder.resolve("image");
        Optional<ToolProvider> jlink = ToolProvider.findFirst("jlink");
        assumeTrue(jlink.isPresent(), "skipped: this JDK makes no images");
        int status = jlink.get().run(System.out, System.err, "--output", image.toString(), "--add-modules", "jdk.httpserver");
        assumeTrue(status == 0, "skipped: this JDK has no modules to make an image of");
        List<String> command = Application.of(JdkServerMain.class).on(image).command(folder, ServerProcess.JAR, folder.resolve("any"));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        try {
            assertTrue(process.waitFor(1, TimeUnit.MINUTES), "it runs");
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertNotEquals(0, process.exitValue(), said);
            assertTrue(said.contains("java.instrument"), said);
        } finally {
            process.destroyForcibly();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void anotherAgentInTheSameClassesDoesNoHarm(boolean first) throws Exception {
        Path jar = Application.agent(OtherAgent.class);
        Application tomcat = Application.of(TomcatMain.class);
        Application both = first ? tomcat.with("-javaagent:" + jar) : tomcat.withAgentAfter(jar);
        ServerProcess server = new ServerProcess(both.quick(), CONFIG);
        try (server) {
            Load load = new Load(server.port).clients(4, "/light", 20).clients(4, "/heavy", 8).run();
            assertEquals("[]", load.failures().toString());
            assertTrue(server.metric("yields_total{class=\"heavy\"}") > 0, server.metrics());
            server.awaitMetric("present{class=\"heavy\"}", 0);
            assertEquals(0, server.metric("faults_total"), server.said());
            assertEquals(0, server.metric("classes_left"), server.metrics());
        }
        server.awaitSaid("the other agent saw [1-9]\\d+ calls and [1-9]\\d+ requests");
        Files.delete(jar);
    }
}
