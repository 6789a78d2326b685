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
        assertEquals(0, wakeUps.beforeEntryNanos());
        wakeUps.add(-5);
        assertEquals(0, wakeUps.meanBeforeEntryNanos(), "whoever was woken was not late");
    }

    @Test
    void whatTimersTakeInAnyCaseIsNoWait() {
        WakeUps wakeUps = new WakeUps();
        for (int tick = 0; tick < 500; tick++) {
            wakeUps.add(60_000);
        }
        assertEquals(0, wakeUps.beforeEntryNanos());
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
            wakeUps.add(random.nextLong(3 * MS));
            long nanos = wakeUps.beforeEntryNanos();
            sum += nanos;
            greatest = Math.max(greatest, nanos);
        }
        assertEquals(3.0, sum / (double) nr / MS, 0.15);
        assertTrue(greatest > 5 * MS && greatest <= 6 * MS, "both may be late: " + greatest);
        assertEquals(3.0, wakeUps.meanBeforeEntryNanos() / (double) MS, 0.7);
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
