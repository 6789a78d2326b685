package quartier.degrade.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import quartier.degrade.weave.Point;
import quartier.degrade.weave.PointChoice;

class PointsTest {
    private static final Point OFTEN = new Point("a.B", "often", 1, Point.Kind.ENTRY);
    private static final Point UNSEEN = new Point("a.B", "unseen", 2, Point.Kind.ENTRY);
    private static final long SECOND = 1_000_000_000;
    private static final String REMEDY = "; detach and attach again while requests run, or name points in [weave]";

    private final Points points = new Points(Points.By.PROFILE_UNDER_WAY);

    /** The first is passed a million times a second, and no window needs it; the second is not passed. */
    private PointChoice choice() {
        long[] nrPassed = new long[2];
        nrPassed[points.number(OFTEN)] = 1_000_000;
        nrPassed[points.number(UNSEEN)] = 0;
        return new PointChoice(null, nrPassed, SECOND, List.of());
    }

    @Test
    void aFirstProfileThatFailsLeavesThePointsOfTheRule() {
        points.number(OFTEN);
        assertEquals("yield points could not be chosen by a profile, because nothing ran: they are those of the rule" + REMEDY,
                points.giveUp("nothing ran"));
        assertEquals(Points.By.RULE, points.by());
        assertTrue(points.isChosen(OFTEN));
    }

    @Test
    void aLaterProfileThatFailsLeavesWhatWasChosenBefore() {
        PointChoice choice = choice();
        points.choose(choice);
        assertEquals("yield points could not be chosen by a profile once more, because nothing ran: those that were chosen before"
                + " stay, and code that had not been seen then keeps all of its own" + REMEDY, points.giveUp("nothing ran"));
        assertEquals(Points.By.PROFILE, points.by());
        assertSame(choice, points.choice());
        assertFalse(points.isChosen(OFTEN));
        assertTrue(points.isChosen(UNSEEN), "as it says");
    }
}
