package quartier.degrade.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quartier.degrade.weave.PointChoice.Window;

class PointChoiceTest {
    private static final long SECOND = 1_000_000_000;

    private static final long MILLI = 1_000_000;

    private static Window window(int... ids) {
        BitSet points = new BitSet();
        for (int id : ids) {
            points.set(id);
        }
        return new Window(points, MILLI);
    }

    @Test
    void ofTwoThatSayTheSameTheSeldomerIsKept() {
        // 0 is passed a million times a second wherever 1 is passed ten thousand times; 2 is alone; 3 is seldom; 4 never.
        long[] nrPassed = {1_000_000, 10_000, 2_000_000, 100, 0};
        List<Window> windows = new ArrayList<>();
        for (int at = 0; at < 100; at++) {
            windows.add(at % 2 == 0 ? window(0, 1) : window(2));
        }
        windows.add(window(0, 3));
        PointChoice choice = new PointChoice(null, nrPassed, SECOND, List.of(windows));
        assertFalse(choice.isChosen(0));
        assertTrue(choice.isChosen(1) && choice.isNeeded(1));
        assertTrue(choice.isChosen(2) && choice.isNeeded(2), "nothing else covers its windows");
        assertTrue(choice.isChosen(3) && !choice.isNeeded(3));
        assertTrue(choice.isChosen(4) && choice.isChosen(5), "what was not seen keeps its points");
        assertEquals(1, choice.coveredPart());
        assertEquals(2010.1, choice.chosenPerMilli(), 0.01);
        assertEquals(3010.1, choice.allPerMilli(), 0.01);
    }

    @Test
    void whatALaterProfileSeesIsAddedToWhatAnEarlierOneSaw() {
        // First 1 covers all, and 0 is left out; 2 did not run. Then 2 and 3 run, 0 was not there, and 3 is the seldomer.
        List<Window> first = Collections.nCopies(100, window(0, 1));
        PointChoice before = new PointChoice(null, new long[] {1_000_000, 10_000, 0}, SECOND, List.of(first));
        assertTrue(before.isChosen(2) && !before.isSeen(2) && !before.isChosen(0));
        List<Window> later = Collections.nCopies(100, window(2, 3));
        PointChoice choice = new PointChoice(before, new long[] {0, 0, 90_000_000, 20_000}, SECOND, List.of(later));
        assertFalse(choice.isChosen(0), "left out it stays");
        assertTrue(choice.isChosen(1) && choice.isNeeded(1), "the first windows are still there");
        assertFalse(choice.isChosen(2));
        assertTrue(choice.isSeen(2) && choice.isChosen(3) && choice.isNeeded(3));
        assertEquals(1, choice.passingPart());
        assertEquals(200, choice.nrWindows());
    }

    /** Ten windows that only a point in the hottest code covers, of one request or of as many. */
    @Test
    void theEndOfARequestIsAsGoodAsAPointThatIsDear() {
        long[] nrPassed = {900_000_000, 1000};
        int most = (int) (PointChoice.WITHOUT_MAX_NANOS / MILLI);
        List<Window> one = Collections.nCopies(most, window(0));
        PointChoice needed = new PointChoice(null, nrPassed, SECOND, List.of(one));
        assertTrue(needed.isChosen(0) && needed.isNeeded(0) && needed.isDear(0));
        assertEquals(1, needed.passingPart());
        PointChoice each = new PointChoice(null, nrPassed, SECOND, Collections.nCopies(most, List.of(window(0))));
        assertFalse(each.isChosen(0));
        assertEquals(0, each.passingPart());
        assertEquals(1, each.coveredPart());
        // Another point in the midst of them is not far from any.
        List<Window> interrupted = new ArrayList<>(one);
        interrupted.set(most / 2, window(0, 1));
        assertFalse(new PointChoice(null, nrPassed, SECOND, List.of(interrupted)).isChosen(0));
    }

    @Test
    void windowsWithoutAnyPointAreSaid() {
        List<Window> windows = new ArrayList<>(Collections.nCopies(10, window()));
        windows.addAll(Collections.nCopies(10, window(0)));
        PointChoice choice = new PointChoice(null, new long[] {1_000_000}, SECOND, List.of(windows));
        assertTrue(choice.isChosen(0));
        assertEquals(0.5, choice.passingPart());
        assertEquals(0.5, choice.coveredPart());
        assertEquals(1, new PointChoice(null, new long[0], 0, List.of()).coveredPart());
    }

    /** Whatever was seen: what points cover, the chosen ones cover too, but for a two-hundredth and for what is dear. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void theChosenCoverWhatAllDo(long seed) {
        Random random = new Random(seed);
        int nrPoints = 1 + random.nextInt(200);
        long[] nrPassed = random.longs(nrPoints, 0, 20_000_000).map(nr -> random.nextInt(3) == 0 ? nr % 7000 : nr).toArray();
        List<List<Window>> requests = new ArrayList<>();
        for (int nr = random.nextInt(300); nr >= 0; nr--) {
            List<Window> windows = new ArrayList<>();
            for (int at = random.nextInt(25); at >= 0; at--) {
                windows.add(window(random.ints(random.nextInt(4), 0, nrPoints).toArray()));
            }
            requests.add(windows);
        }
        PointChoice choice = new PointChoice(null, nrPassed, SECOND, requests);
        List<Window> all = requests.stream().flatMap(List::stream).toList();
        List<Window> without =
                all.stream().filter(window -> window.points().stream().noneMatch(choice::isChosen)).toList();
        assertEquals(1 - (double) without.size() / all.size(), choice.passingPart(), 1e-9, "seed " + seed);
        assertTrue(choice.coveredPart() >= choice.passingPart(), "seed " + seed);
        long nrMissed = without.stream()
                .filter(window -> window.points().stream().anyMatch(id -> !choice.isDear(id)))
                .count();
        assertTrue(nrMissed <= 0.005 * all.size(), "seed " + seed);
        for (int id = 0; id < nrPoints; id++) {
            assertTrue(choice.isChosen(id) || choice.perSecond(id) >= PointChoice.OFTEN_PER_S, "seed " + seed);
        }
    }
}
