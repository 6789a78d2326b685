package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** A service that nobody asked for while the yield points were chosen. */
class LateCodeTest {
    private static final String CONFIG = """
            metrics_port = 0

            [weave]
            include = ["trial.**", "com.sun.org.apache.xerces.**"]
            profile_s = 1
            """;
    private static final String CHOSEN = "\\d+ yield points chosen by a profile";
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(60);

    @Test
    void itsPointsAreChosenOnceItIsThere() throws Exception {
        try (ServerProcess server = new ServerProcess(TomcatMain.class, CONFIG)) {
            askUntilSaid(server, "/heavy", CHOSEN);
            double nrFirst = server.metric("points");
            askUntilSaid(server, "/light", "code runs that the profile of yield points has not seen");
            askUntilSaid(server, "/light", CHOSEN);
            assertTrue(server.metric("points") < nrFirst, "Fibonacci's are left out");
            assertEquals(0, server.metric("faults_total"));
        }
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
