package quartier.degrade.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;

class LatenciesTest {
    private static final long S = 1_000_000_000;

    @Property(tries = 300)
    void quantilesAreThoseOfAllInTheWindow(@ForAll @Size(min = 1, max = 2000) List<@LongRange(min = 0, max = 2_000 * S) Long> all) {
        long[] nanos = all.stream().mapToLong(each -> each).toArray();
        Latencies latencies = new Latencies();
        for (int at = 0; at < nanos.length; at++) {
            latencies.add(nanos[at], -3 * S + at * 2 * S / nanos.length);
        }
        long[] sorted = nanos.clone();
        Arrays.sort(sorted);
        OptionalLong[] found = latencies.quantiles(5 * S, 0, 0.5, 0.95, 1);
        double[] quantiles = {0, 0.5, 0.95, 1};
        for (int at = 0; at < quantiles.length; at++) {
            int rank = Math.max(1, (int) Math.ceil(quantiles[at] * sorted.length));
            double wanted = sorted[rank - 1];
            assertEquals(wanted, found[at].orElseThrow(), wanted / 64 + 1024, quantiles[at] + " of " + sorted.length);
        }
        assertEquals(OptionalLong.empty(), latencies.quantiles(20 * S, 0.5)[0], "long ago");
    }

    @Example
    void whatIsOlderIsForgottenSecondBySecond() {
        Latencies latencies = new Latencies();
        for (int second = 0; second < 30; second++) {
            latencies.add((second + 1) * S / 1000, second * S);
        }
        OptionalLong[] found = latencies.quantiles(29 * S, 0, 1);
        assertEquals(21, found[0].orElseThrow() / 1e6, 0.4);
        assertEquals(30, found[1].orElseThrow() / 1e6, 0.5);
    }

    @Example
    void whatCameSinceIsExact() {
        Latencies latencies = new Latencies();
        for (int at = 1; at <= 1000; at++) {
            latencies.add(at, at);
        }
        assertEquals(OptionalLong.of(995), latencies.quantileAfter(0.5, 990));
        assertEquals(0.3, latencies.partAbove(997, 990), 1e-9);
        assertEquals(OptionalLong.empty(), latencies.quantileAfter(0.5, 1000));
        assertTrue(Double.isNaN(latencies.partAbove(1, 1000)));
    }
}
