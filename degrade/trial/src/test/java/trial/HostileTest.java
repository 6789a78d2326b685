package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
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
                    .clients(2, where + "/dying", 20)
                    .clients(2, where + "/failing", 20)
                    .run();
            assertTrue(load.failures().stream().allMatch(failure ->
                            failure.startsWith(where + "/dying: ") || failure.startsWith(where + "/failing: ")),
                    load.failures().toString());
            assertTrue(load.failures().size() >= 40, "whoever fails or dies is no answer");
            assertEquals(200, server.get(where + "/heavy").code());
            for (String name : new String[] {"light", "heavy", "other"}) {
                server.awaitMetric("present{class=\"" + name + "\"}", 0);
                assertEquals(0, server.metric("waiting{class=\"" + name + "\"}"));
            }
            assertEquals(0, server.metric("faults_total"), server.said());
            assertEquals(0, server.metric("opened_total"), server.said());
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

    /** An agent's jar that has nothing in it: its classes are on the application's class path. */
    private static Path otherAgent() throws Exception {
        Manifest manifest = new Manifest();
        Attributes attributes = manifest.getMainAttributes();
        attributes.put(Attributes.Name.MANIFEST_VERSION, "1.0");
        attributes.putValue("Premain-Class", OtherAgent.class.getName());
        attributes.putValue("Can-Retransform-Classes", "true");
        Path jar = Files.createTempFile("other-agent", ".jar");
        try (OutputStream stream = Files.newOutputStream(jar)) {
            new JarOutputStream(stream, manifest).close();
        }
        return jar;
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void anotherAgentInTheSameClassesDoesNoHarm(boolean first) throws Exception {
        Path jar = otherAgent();
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
