package quartier.degrade.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import quartier.degrade.gate.Gate;

class GateTest {
    private static final int MORE_THAN_ANYBODY_BEARS = 100_000;

    /** Passes points that nobody waits for until the question is no longer put, then lets itself be asked. Returns whether it is. */
    private static boolean isAskedAfter(RecordingHook hook, int nrPasses) {
        hook.events.clear();
        hook.request(() -> {
            hook.asks = false;
            for (int at = 0; at < nrPasses; at++) {
                Gate.point();
            }
            hook.asks = true;
            Gate.point();
        });
        return hook.count("point") == 1;
    }

    @Test
    void whoIsNotAskedPassesOnlySoManyPointsTheLongWay() {
        try (RecordingHook hook = new RecordingHook()) {
            assertTrue(isAskedAfter(hook, 100), "the question is still put");
            assertTrue(!isAskedAfter(hook, MORE_THAN_ANYBODY_BEARS), "it is withdrawn by whoever it costs too much");
            assertTrue(!isAskedAfter(hook, 0), "for everybody");
            Gate.ask(true);
            assertTrue(isAskedAfter(hook, 0), "until it is put again");
        }
    }

    @Test
    void aQuestionThatNobodyAnswersIsPutForLonger() {
        try (RecordingHook hook = new RecordingHook()) {
            int nrBorne = 0;
            for (int round = 0; round < 3; round++) {
                Gate.ask(true);
                int nr = 0;
                while (isAskedAfter(hook, 500)) {
                    nr += 500;
                }
                assertTrue(nr > nrBorne, "round " + round + ": " + nr + " after " + nrBorne);
                nrBorne = nr;
            }
            Gate.ask(false);
            assertTrue(!isAskedAfter(hook, 0), "nobody is asked");
        }
    }

    @Test
    void whoIsAskedComesWhoeverElseIs() {
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> {
                Gate.point();
                Gate.hold();
                Gate.point();
                Gate.release();
            });
            assertEquals(java.util.List.of("begin test request response", "point", "held", "end"), hook.events);
        }
    }
}
