package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What is left of the agent in a server from which it was taken out: none of its code. */
@Timeout(240)
class DetachTest {
    private static final String CONFIG = """
        metrics_port = 0
        [weave]
        include = ["trial.**", "com.sun.org.apache.xerces.**"]
        """;
    /** The application's, the JDK's that it names, where the server's requests begin, and where work is handed over. */
    private static final List<String> WOVEN = List.of(
            "trial.Services",
            "com.sun.org.apache.xerces.internal.impl.XMLDocumentFragmentScannerImpl",
            "org.apache.catalina.core.StandardEngineValve",
            "java.util.concurrent.ThreadPoolExecutor");
    /** Nobody asks for it until the agent is there. */
    private static final String LOADED_LATER = "trial.Hunt";

    private static List<String> recorded(ServerProcess server, String name) throws Exception {
        List<String> digests = new ArrayList<>();
        for (String className : WOVEN) {
            digests.add(server.property(name + ":" + className));
        }
        return digests;
    }

    private static String original(String className) throws Exception {
        try (var file = DetachTest.class.getResourceAsStream("/" + className.replace('.', '/') + ".class")) {
            return RecordingAgent.digest(file.readAllBytes());
        }
    }

    /**
     * To ask the JVM for a class file afterwards would restore it: so somebody is there who sees what the agent itself does. That
     * one's classes are woven too, as those of other agents may be, although the JVM calls it whenever a class is loaded.
     */
    @Test
    void classFilesAreWhatTheyWereOnceTheAgentIsOut() throws Exception {
        Path recorder = Application.agent(RecordingAgent.class);
        try (ServerProcess server = new ServerProcess(Application.of(TomcatMain.class).quick(), null)) {
            assertEquals(200, server.get("/heavy").code());
            server.load(recorder, "before " + String.join(" ", WOVEN));
            List<String> before = recorded(server, "before");

            Files.writeString(server.config, CONFIG);
            assertEquals(0, server.tell("attach", server.pid(), server.config.toString()), server.said());
            server.load(recorder, "now " + String.join(" ", WOVEN) + " " + LOADED_LATER);
            List<String> woven = recorded(server, "now");
            for (int at = 0; at < WOVEN.size(); at++) {
                assertNotEquals(before.get(at), woven.get(at), WOVEN.get(at) + " is woven");
            }
            assertEquals(200, server.get("/hunt").code());
            assertNotEquals(original(LOADED_LATER), server.property("now:" + LOADED_LATER));

            assertEquals(0, server.tell("detach", server.pid()), server.said());
            assertEquals(before, recorded(server, "now"), "of " + WOVEN);
            assertEquals(original(LOADED_LATER), server.property("now:" + LOADED_LATER));
            assertEquals(200, server.get("/heavy").code());
        }
        Files.delete(recorder);
    }
}
