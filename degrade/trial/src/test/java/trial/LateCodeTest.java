package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** A service that nobody asked for while the yield points were chosen. */
class LateCodeTest {
    private static final String CONFIG = """
            metrics_port = 0

            [weave]
            include = ["trial.**", "com.sun.org.apache.xerces.**"]
            profile_s = 2
            """;
    private static final String CHOSEN = "\\d+ yield points chosen by a profile";
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(60);

    @Test
    void itsPointsAreChosenOnceItIsThere() throws Exception {
        try (ServerProcess server = new ServerProcess(TomcatMain.class, CONFIG)) {
            askUntilSaid(server, "/heavy", CHOSEN);
            String first = points(server);
            assertTrue(first.contains("#fibonacci"), "nobody has asked for it: all of its points are there\n" + first);
            askUntilSaid(server, "/light", "code runs that the profile of yield points has not seen");
            askUntilSaid(server, "/light", CHOSEN);
            assertFalse(points(server).contains("#fibonacci"), "they are left out");
            assertEquals(0, server.metric("faults_total"));
        }
    }

    /** All that are in use; those that were left out are remarks. */
    private static String points(ServerProcess server) throws Exception {
        server.load(ServerProcess.JAR, "ask 1 points");
        String report = server.property("quartier.degrade.answer.1");
        return report.lines().filter(line -> !line.startsWith("#")).collect(Collectors.joining("\n"));
    }

    private static void askUntilSaid(ServerProcess server, String path, String regex) throws Exception {
        Pattern said = Pattern.compile(regex);
        long beganNanos = System.nanoTime();
        while (!said.matcher(server.said()).find() && System.nanoTime() - beganNanos < PATIENCE_NANOS) {
            Load load = new Load(server.port).clients(2, path, 200).run();
            assertEquals(List.of(), load.failures());
        }
        server.awaitSaid(regex);
    }
}
