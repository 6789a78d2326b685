package quartier.degrade.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import quartier.degrade.core.policy.Fair;

/** What a request waits before anybody sees it, by how late threads wake up. */
class WakeUpsTest {
    private static final long MS = 1_000_000;

    @Test
    void whereNothingIsKnownNothingIsAdded() {
        WakeUps wakeUps = new WakeUps();
        assertEquals(0, wakeUps.beforeEntryNanos(1));
        wakeUps.addLate(-5, 1);
        assertEquals(0, wakeUps.meanBeforeEntryNanos(1), "whoever was woken was not late");
    }

    @Test
    void whatTimersTakeInAnyCaseIsNoWait() {
        WakeUps wakeUps = new WakeUps();
        for (int tick = 0; tick < 500; tick++) {
            wakeUps.addLate(60_000, tick * 2 * MS);
        }
        assertEquals(0, wakeUps.beforeEntryNanos(1000 * MS));
    }

    @Test
    void twoThreadsHaveToWakeUp() {
        WakeUps wakeUps = new WakeUps();
        long seed = System.nanoTime();
        System.out.println("seed " + seed);
        Random random = new Random(seed);
        long sum = 0;
        long greatest = 0;
        int nr = 20_000;
        for (int tick = 0; tick < nr; tick++) {
            wakeUps.addLate(random.nextLong(3 * MS), tick * 2 * MS);
            long nanos = wakeUps.beforeEntryNanos(tick * 2 * MS);
            sum += nanos;
            greatest = Math.max(greatest, nanos);
        }
        assertEquals(3.0, sum / (double) nr / MS, 0.15);
        assertTrue(greatest > 5 * MS && greatest <= 6 * MS, "both may be late: " + greatest);
        assertEquals(3.0, wakeUps.meanBeforeEntryNanos(nr * 2 * MS) / (double) MS, 0.7);
    }

    @Test
    void whatTheKernelHasCountedOfTheSecondIsNotGuessed() {
        WakeUps wakeUps = new WakeUps();
        wakeUps.addWaited(300 * MS, 1);
        assertEquals(0, wakeUps.meanBeforeEntryNanos(1), "one may be an exception");
        wakeUps = new WakeUps();
        for (int thread = 0; thread < 8; thread++) {
            wakeUps.addWaited(-1, 1);
            wakeUps.addWaited(30 * MS, 1);
        }
        assertEquals(30 * MS, wakeUps.beforeEntryNanos(1));
        wakeUps.addLate(0, 1);
        wakeUps.addLate(4 * MS, 1);
        assertEquals(32 * MS, wakeUps.meanBeforeEntryNanos(1));
        assertEquals(34 * MS, Math.max(wakeUps.beforeEntryNanos(1), wakeUps.beforeEntryNanos(1)));
        wakeUps.addLate(0, 1001 * MS);
        wakeUps.addLate(4 * MS, 1001 * MS);
        assertEquals(4 * MS, wakeUps.meanBeforeEntryNanos(1002 * MS), "it was of another time");
    }

    @Test
    void whereRequestsAreFollowedNothingIsGuessed() {
        WakeUps wakeUps = new WakeUps();
        wakeUps.addLate(0, 1);
        wakeUps.addLate(4 * MS, 1);
        for (int request = 0; request < 8; request++) {
            wakeUps.addWaited(30 * MS, 1);
            wakeUps.addFollowed(50 * MS, false, 1);
            assertTrue(request == 7 || wakeUps.meanBeforeEntryNanos(1) <= 32 * MS, "one may be an exception");
        }
        assertEquals(50 * MS, wakeUps.meanBeforeEntryNanos(1));
        assertEquals(50 * MS, wakeUps.beforeEntryNanos(1));
        for (int request = 0; request < 256; request++) {
            wakeUps.addFollowed(50 * MS, true, 2);
        }
        assertEquals(52 * MS, wakeUps.meanBeforeEntryNanos(2), "whoever had to wake up was late");
        wakeUps.addLate(0, 1500 * MS);
        assertEquals(0, wakeUps.meanBeforeEntryNanos(1500 * MS), "they were of another time");
    }

    @Test
    void whatIsLongAgoOrNoWaitForCpusDoesNotCount() {
        WakeUps wakeUps = new WakeUps();
        wakeUps.addLate(0, 1);
        wakeUps.addLate(9 * MS, 2);
        wakeUps.addLate(10_000 * MS, 3);
        assertEquals(9 * MS, wakeUps.meanBeforeEntryNanos(900 * MS), "whoever stops the JVM is not its load");
        assertEquals(0, wakeUps.meanBeforeEntryNanos(1100 * MS));
        // At rest it is looked ten times a second.
        for (int look = 0; look < 10; look++) {
            wakeUps.addLate(0, (1100 + look * 100) * MS);
        }
        assertEquals(0, wakeUps.meanBeforeEntryNanos(2100 * MS));
        assertEquals(0, wakeUps.beforeEntryNanos(2100 * MS));
    }

    /** A request of 10 ms: half of the time, threads wake up at once, and half of it 4 ms late. */
    @Test
    void itCountsAsLatency() {
        Scheduler scheduler = new Scheduler(
                new Settings(1, 2 * MS, 1000 * MS, Settings.Mode.ON, Fair::new, List.of(WorkClass.plain("all"))));
        long nowNanos = 1;
        for (int request = 0; request < 400; request++) {
            long lateNanos = request % 2 * 4 * MS;
            scheduler.tick(nowNanos, new Simulation.Busy() {
                @Override
                public long lateNanos() {
                    return lateNanos;
                }
            });
            Job job = scheduler.job(Simulation.requestOf("/"), null, nowNanos);
            scheduler.arrive(job, nowNanos);
            nowNanos += 10 * MS;
            scheduler.leave(job, nowNanos);
        }
        ClassReport report = ClassReport.of(scheduler, nowNanos).get(0);
        assertEquals(18, report.p99Nanos().orElseThrow() / 1e6, 0.3);
        assertTrue(report.p50Nanos().orElseThrow() < 14.3 * MS, report.toString());
    }
}
