package quartier.degrade.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PointChoiceTest {
    private static final long SECOND = 1_000_000_000;

    private static BitSet window(int... ids) {
        BitSet window = new BitSet();
        for (int id : ids) {
            window.set(id);
        }
        return window;
    }

    @Test
    void ofTwoThatSayTheSameTheSeldomerIsKept() {
        // 0 is passed a million times a second wherever 1 is passed ten thousand times; 2 is alone; 3 is seldom; 4 never.
        long[] nrPassed = {1_000_000, 10_000, 2_000_000, 100, 0};
        List<BitSet> windows = new ArrayList<>();
        for (int at = 0; at < 100; at++) {
            windows.add(at % 2 == 0 ? window(0, 1) : window(2));
        }
        windows.add(window(0, 3));
        PointChoice choice = new PointChoice(nrPassed, SECOND, windows);
        assertFalse(choice.isChosen(0));
        assertTrue(choice.isChosen(1) && choice.isNeeded(1));
        assertTrue(choice.isChosen(2) && choice.isNeeded(2), "nothing else covers its windows, whatever it costs");
        assertTrue(choice.isChosen(3) && !choice.isNeeded(3));
        assertTrue(choice.isChosen(4) && choice.isChosen(5), "what was not seen keeps its points");
        assertEquals(1, choice.coveredPart());
        assertEquals(2010.1, choice.chosenPerMilli(), 0.01);
        assertEquals(3010.1, choice.allPerMilli(), 0.01);
    }

    @Test
    void windowsWithoutAnyPointAreSaid() {
        PointChoice choice = new PointChoice(new long[] {1_000_000}, SECOND, List.of(window(0), window(), window(0), window()));
        assertTrue(choice.isChosen(0));
        assertEquals(0.5, choice.coveredPart());
        assertEquals(1, new PointChoice(new long[0], 0, List.of()).coveredPart());
    }

    /** Whatever was seen: what all points cover, the chosen ones cover too, but for a two-hundredth. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void theChosenCoverWhatAllDo(long seed) {
        Random random = new Random(seed);
        int nrPoints = 1 + random.nextInt(200);
        long[] nrPassed = random.longs(nrPoints, 0, 3_000_000).map(nr -> random.nextInt(3) == 0 ? nr % 7000 : nr).toArray();
        List<BitSet> windows = new ArrayList<>();
        for (int at = random.nextInt(2000); at >= 0; at--) {
            BitSet window = new BitSet();
            random.ints(random.nextInt(8), 0, nrPoints).forEach(window::set);
            windows.add(window);
        }
        PointChoice choice = new PointChoice(nrPassed, SECOND, windows);
        long nrEmpty = windows.stream().filter(BitSet::isEmpty).count();
        long nrCovered = windows.stream().filter(window -> window.stream().anyMatch(choice::isChosen)).count();
        assertTrue(windows.size() - nrEmpty - nrCovered <= 0.005 * windows.size(), "seed " + seed);
        assertEquals((double) nrCovered / windows.size(), choice.coveredPart(), 1e-9, "seed " + seed);
        for (int id = 0; id < nrPoints; id++) {
            assertTrue(choice.isChosen(id) || choice.perSecond(id) >= PointChoice.OFTEN_PER_S, "seed " + seed);
        }
    }
}
