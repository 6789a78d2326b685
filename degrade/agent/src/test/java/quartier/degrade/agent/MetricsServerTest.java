package quartier.degrade.agent;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class MetricsServerTest {
    @Test
    void onlyNamesOfThisMachineAreAnswered() {
        for (String good : new String[] {"localhost", "localhost:7117", "127.0.0.1:1", "[::1]:7117", "[::1]"}) {
            assertTrue(MetricsServer.isThisMachine(good), good);
        }
        for (String bad : Arrays.asList(
                null, "", "evil.example:7117", "localhost.evil.example", "127.0.0.1.evil:80", "::1", "localhost:80:80")) {
            assertFalse(MetricsServer.isThisMachine(bad), bad);
        }
    }
}
