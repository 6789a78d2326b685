package quartier.degrade.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.function.DoubleSupplier;
import org.junit.jupiter.api.Test;
import quartier.degrade.core.policy.Fair;

/** More permits while CPUs are idle though jobs wait, and as few as configured once they are not. */
class PermitsTest {
    private static final long MS = 1_000_000;

    private final Permits permits = new Permits();
    private long nowNanos = 1;

    private static Settings settings(boolean mayGrow) {
        return new Settings(3, mayGrow, 2 * MS, 1000 * MS, Settings.Mode.ON, Fair::new, List.of(WorkClass.plain("all")));
    }

    private static Probe probe(DoubleSupplier idlePart) {
        return new Simulation.Busy() {
            @Override
            public double idlePart() {
                return idlePart.getAsDouble();
            }
        };
    }

    private int after(long millis, boolean anyWaits, double idlePart) {
        for (long ms = 0; ms < millis; ms += 2) {
            nowNanos += 2 * MS;
            permits.tick(nowNanos, anyWaits, probe(() -> idlePart));
        }
        return permits.nr();
    }

    @Test
    void thereAreMoreWhileCpusAreIdleAndSomebodyWaits() {
        permits.configure(settings(true));
        assertEquals(3, after(1000, false, 0.5), "nobody wants one");
        assertEquals(3, after(1000, true, Double.NaN), "it is not known");
        assertEquals(3, after(1000, true, 0.04), "nearly all are busy");
        assertEquals(4, after(250, true, 0.2));
        assertEquals(24, after(10_000, true, 0.2), "so many times as configured at most");
        assertEquals(24, after(1000, true, 0.03), "that is well");
        assertEquals(3, after(1200, true, 0), "and down again");
    }

    @Test
    void whoSaysHowManyMeansIt() {
        permits.configure(settings(false));
        assertEquals(3, after(10_000, true, 0.9));
    }

    @Test
    void whatWasIdleWhileNobodyLookedDoesNotCount() {
        permits.configure(settings(true));
        for (int step = 0; step < 10; step++) {
            nowNanos += 5000 * MS;
            permits.tick(nowNanos, true, probe(() -> 0.9));
        }
        assertEquals(3, permits.nr());
    }

    @Test
    void whoeverHasOneTooManyHandsItOnAfterItsSlice() {
        Settings settings = settings(true);
        Scheduler scheduler = new Scheduler(settings);
        double[] idlePart = {0.5};
        List<Job> jobs = new ArrayList<>();
        for (int nr = 0; nr < 8; nr++) {
            jobs.add(scheduler.job(Simulation.requestOf("/"), null, nowNanos));
            scheduler.arrive(jobs.get(nr), nowNanos);
        }
        run(scheduler, jobs, 300, idlePart);
        assertEquals(4, scheduler.nrRunning());
        idlePart[0] = 0;
        run(scheduler, jobs, 300, idlePart);
        assertEquals(3, scheduler.nrPermits());
        assertEquals(3, scheduler.nrRunning());
    }

    /** All of them come by a yield point all the time. */
    private void run(Scheduler scheduler, List<Job> jobs, long millis, double[] idlePart) {
        for (long ms = 0; ms < millis; ms += 2) {
            nowNanos += 2 * MS;
            scheduler.tick(nowNanos, probe(() -> idlePart[0]));
            jobs.stream().filter(Job::asked).forEach(job -> scheduler.pass(job, nowNanos));
        }
    }
}
