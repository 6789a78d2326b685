package quartier.degrade.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import quartier.degrade.why.Schedstat;

/** When requests came, by when somebody looked for them. */
class LooksTest {
    private static final long MS = 1_000_000;

    private final AtomicLong clock = new AtomicLong(1000 * MS);
    private Schedstat counted;
    private final Looks looks = new Looks(clock::get, () -> counted);
    private final Object looker = new Object();
    private final List<Double> waitedMillis = new ArrayList<>();
    private int nrSlept;

    private void look(long tookNanos) {
        looks.begins(looker);
        clock.addAndGet(tookNanos);
        looks.ended(looker);
    }

    private void select(Object connection) {
        looks.selects(looker);
        looks.selected(connection);
    }

    private void enter(Object connection) {
        looks.entered(connection, (nanos, slept) -> {
            waitedMillis.add(nanos / (double) MS);
            nrSlept += slept ? 1 : 0;
        });
    }

    @Test
    void whoeverWokeTheLookerCameThen() {
        look(50 * MS);
        Object connection = new Object();
        select(connection);
        clock.addAndGet(3 * MS);
        enter(new Object());
        enter(null);
        assertEquals(List.of(), waitedMillis, "another one");
        enter(connection);
        enter(connection);
        assertEquals(List.of(3.0), waitedMillis, "once");
        assertEquals(1, nrSlept);
        assertFalse(looks.isFollowing());
    }

    private void look(long tookNanos, Schedstat before, Schedstat after) {
        counted = before;
        looks.begins(looker);
        clock.addAndGet(tookNanos);
        counted = after;
        looks.ended(looker);
        counted = null;
    }

    @Test
    void howLateTheLookerWokeUpIsCountedByTheKernel() {
        look(50 * MS);
        clock.addAndGet(30 * MS);
        look(50 * MS, new Schedstat(0, 7 * MS, 3), new Schedstat(0, 11 * MS, 4));
        Object connection = new Object();
        select(connection);
        clock.addAndGet(3 * MS);
        enter(connection);
        assertEquals(List.of(7.0), waitedMillis, "4 ms until it had a CPU, and 3 more");
        assertEquals(0, nrSlept, "so that need not be guessed");
    }

    @Test
    void whoeverDidNotSleepMayHaveFoundWhatWasThereForLong() {
        Object connection = new Object();
        look(50 * MS);
        looks.awaits(connection);
        clock.addAndGet(30 * MS);
        look(50 * MS, new Schedstat(0, 20 * MS, 3), new Schedstat(0, 70 * MS, 4));
        select(connection);
        enter(connection);
        assertEquals(80.0, waitedMillis.get(0), 0.01, "it waited for a CPU");
        looks.awaits(connection);
        clock.addAndGet(30 * MS);
        look(MS, new Schedstat(0, 70 * MS, 4), new Schedstat(0, 70 * MS, 4));
        select(connection);
        enter(connection);
        assertEquals(31.0, waitedMillis.get(1), 0.01, "it had its CPU all the time: there was much to be found");
    }

    /** A client that asks again at once: nobody has looked for it before. */
    @Test
    void whoeverWasNotLookedForLastTimeCameWhenItsAnswerWasSent() {
        Object connection = new Object();
        look(50 * MS);
        looks.answers(connection);
        clock.addAndGet(9 * MS);
        look(10_000);
        clock.addAndGet(MS);
        looks.awaits(connection);
        clock.addAndGet(6 * MS);
        look(10_000);
        select(connection);
        clock.addAndGet(2 * MS);
        enter(connection);
        assertEquals(18.02, waitedMillis.get(0), 0.01, "the thread that sent it had no CPU for 10 ms");
        looks.answers(connection);
        looks.awaits(connection);
        clock.addAndGet(MS);
        look(10_000);
        clock.addAndGet(30 * MS);
        look(10_000);
        clock.addAndGet(20 * MS);
        select(connection);
        enter(connection);
        assertTrue(waitedMillis.get(1) >= 20 && waitedMillis.get(1) <= 50.02, "it was not there at the look before: " + waitedMillis);
    }

    /** A hundred times as many looks, and not a hundred times as many that are followed. */
    @Test
    void theMoreThereAreTheFewerOfThemAreFollowed() {
        int[] nrFollowed = new int[2];
        for (int busy = 0; busy < 2; busy++) {
            long stepNanos = busy == 0 ? 10 * MS : MS / 10;
            for (long nanos = 0; nanos < 4000 * MS; nanos += stepNanos) {
                clock.addAndGet(stepNanos);
                look(0);
                Object connection = new Object();
                looks.awaits(connection);
                select(connection);
                nrFollowed[busy] += looks.isFollowing() ? 1 : 0;
                enter(connection);
            }
        }
        assertTrue(nrFollowed[0] >= 399, "of a hundred in a second, all: " + nrFollowed[0]);
        assertEquals(800, nrFollowed[1], 500, "of ten thousand in a second, two hundred or a few more");
    }

    @Test
    void ofTwoThatShareAPlaceOneIsKnown() {
        ConnectionTimes awaited = new ConnectionTimes();
        List<Object> connections = new ArrayList<>();
        for (long nowNanos = -500 * MS; nowNanos < 500 * MS; nowNanos += MS / 2) {
            Object connection = new Object();
            connections.add(connection);
            assertEquals(ConnectionTimes.UNKNOWN, awaited.since(connection, nowNanos));
            awaited.put(connection, nowNanos);
            long since = awaited.since(connection, nowNanos + 60_000 * MS);
            assertTrue(since >= nowNanos - 1024 && since <= nowNanos + 1024, since + " is not " + nowNanos);
        }
        long nrKnown = connections.stream().filter(each -> awaited.since(each, 500 * MS) != ConnectionTimes.UNKNOWN).count();
        assertTrue(nrKnown > 100 && nrKnown <= 1024, "the last ones: " + nrKnown);
    }

    /** Ten come at any time in the 10 ms in which nobody looks, and are served one after the other, 1 ms each: 5 + 5 ms on average. */
    @Test
    void whoeverWasThereAtOnceCameSinceTheLastLook() {
        look(50 * MS);
        for (int round = 0; round < 3000; round++) {
            look(10_000);
            for (int at = 0; at < 10; at++) {
                Object connection = new Object();
                select(connection);
                clock.addAndGet(MS);
                enter(connection);
            }
        }
        assertEquals(0, nrSlept, "but for the first look, nobody slept");
        assertTrue(waitedMillis.size() > 1000, "many are followed: " + waitedMillis.size());
        double mean = waitedMillis.stream().mapToDouble(each -> each).average().orElseThrow();
        assertEquals(10.5, mean, 1, "each row and each place in it as often as any other");
        double greatest = waitedMillis.stream().mapToDouble(each -> each).max().orElseThrow();
        assertTrue(greatest > 17 && greatest <= 20.02, "the last one of those that came first: " + greatest);
    }

    @Test
    void whatWasNotAllThereIsItsClientsTime() {
        look(50 * MS);
        Object slow = new Object();
        select(slow);
        clock.addAndGet(900 * MS);
        look(50 * MS);
        select(slow);
        enter(slow);
        assertEquals(List.of(), waitedMillis);
    }

    @Test
    void whatIsLostDoesNotKeepOthersFromBeingFollowed() {
        List<Object> closed = new ArrayList<>();
        for (int at = 0; at < 99; at++) {
            look(50 * MS);
            closed.add(new Object());
            select(closed.get(at));
        }
        assertTrue(looks.isFollowing());
        clock.addAndGet(6000 * MS);
        look(50 * MS);
        Object connection = new Object();
        select(connection);
        enter(connection);
        assertEquals(List.of(0.0), waitedMillis);
    }

    @Test
    void whoSelectsWithoutHavingLookedSaysNothing() {
        Object connection = new Object();
        looks.selected(connection);
        select(connection);
        enter(connection);
        assertEquals(List.of(), waitedMillis);
    }
}
