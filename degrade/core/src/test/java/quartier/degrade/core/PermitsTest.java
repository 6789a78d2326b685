package quartier.degrade.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import quartier.degrade.core.policy.Fair;
import quartier.degrade.core.policy.Weighted;

/** More permits while CPUs are idle though jobs wait, and as few as configured once they are not. */
class PermitsTest {
    private static final long MS = 1_000_000;

    private static final long TICK_NANOS = 2 * MS;
    private static final long LOOK_NANOS = 200 * MS;

    private final Permits permits = new Permits();
    /** Clocks may be below zero. */
    private long nowNanos = -5_000_000 * MS;
    private long lookedNanos = nowNanos;

    /** Whoever looks at CPUs does so five times a second. */
    private final class Cpus extends Simulation.Busy {
        double idlePart;
        double nrCompiling;
        private Look last;

        @Override
        public Look look() {
            if (nowNanos - lookedNanos >= LOOK_NANOS) {
                last = new Look(idlePart, nrCompiling, nowNanos - lookedNanos);
                lookedNanos = nowNanos;
            }
            return last;
        }
    }

    private final Cpus cpus = new Cpus();

    private static Settings settings(boolean mayGrow) {
        return new Settings(3, mayGrow, 2 * MS, 1000 * MS, Settings.Mode.ON, Fair::new, List.of(WorkClass.plain("all")));
    }

    private int after(long millis, boolean anyWaits, double idlePart) {
        return after(millis, anyWaits, idlePart, TICK_NANOS);
    }

    private int after(long millis, boolean anyWaits, double idlePart, long tickNanos) {
        cpus.idlePart = idlePart;
        for (long nanos = 0; nanos < millis * MS; nanos += tickNanos) {
            nowNanos += tickNanos;
            permits.tick(nowNanos, anyWaits, cpus);
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
    void compilersThatHaveWorkHaveCpusForIt() {
        permits.configure(settings(true));
        cpus.nrCompiling = 0.7;
        assertEquals(3, after(1000, true, 0), "now and then");
        cpus.nrCompiling = 1.9;
        assertEquals(1, after(400, true, 0));
        cpus.nrCompiling = 12;
        assertEquals(1, after(400, true, 0), "one at least");
        cpus.nrCompiling = 0.1;
        assertEquals(3, after(400, true, 0));
    }

    @Test
    void nobodyIsFreeOfPermitsWhileCodeIsCompiled() {
        Settings settings = new Settings(
                3, true, 2 * MS, 1000 * MS, Settings.Mode.ON, Weighted::new, List.of(WorkClass.plain("all")));
        Scheduler scheduler = new Scheduler(settings);
        List<Job> jobs = new ArrayList<>();
        for (int nr = 0; nr < 8; nr++) {
            jobs.add(scheduler.job(Simulation.requestOf("/"), null, nowNanos));
            scheduler.arrive(jobs.get(nr), nowNanos);
        }
        cpus.nrCompiling = 2;
        run(scheduler, jobs, 3000);
        assertEquals(1, scheduler.nrRunning());
        cpus.nrCompiling = 0;
        // A second without compilers, and one alone.
        run(scheduler, jobs, 2500);
        assertEquals(0, scheduler.nrRunning());
        assertEquals(8, scheduler.nrLoose(), "it is alone");
    }

    @Test
    void whoSaysHowManyMeansIt() {
        permits.configure(settings(false));
        assertEquals(3, after(10_000, true, 0.9));
    }

    /** Ticks come every 2 ms while anybody waits, and ten times a second else: it is time that counts, not ticks. */
    private void bursts(int nr) {
        for (int burst = 0; burst < nr; burst++) {
            after(60, true, 0.4);
            after(2, false, 0.4);
            after(100, false, 0.4, 100 * MS);
        }
    }

    @Test
    void whatComesInBurstsIsIdleInBetween() {
        permits.configure(settings(true));
        bursts(100);
        assertEquals(3, permits.nr());
    }

    @Test
    void whatOnceWasNeededIsNotKeptForEver() {
        permits.configure(settings(true));
        assertEquals(24, after(5000, true, 0.2));
        assertTrue(after(6000, false, 0.9, 100 * MS) < 24, "nobody wants them");
        assertEquals(3, after(40_000, false, 0.9, 100 * MS));
        assertEquals(24, after(5000, true, 0.2));
        bursts(300);
        assertEquals(3, permits.nr(), "CPUs are idle between bursts only");
    }

    @Test
    void whoeverHasOneTooManyHandsItOnAfterItsSlice() {
        Settings settings = settings(true);
        Scheduler scheduler = new Scheduler(settings);
        cpus.idlePart = 0.5;
        List<Job> jobs = new ArrayList<>();
        for (int nr = 0; nr < 8; nr++) {
            jobs.add(scheduler.job(Simulation.requestOf("/"), null, nowNanos));
            scheduler.arrive(jobs.get(nr), nowNanos);
        }
        run(scheduler, jobs, 300);
        assertEquals(4, scheduler.nrRunning());
        cpus.idlePart = 0;
        run(scheduler, jobs, 300);
        assertEquals(3, scheduler.nrPermits());
        assertEquals(3, scheduler.nrRunning());
    }

    /** All of them come by a yield point all the time. */
    private void run(Scheduler scheduler, List<Job> jobs, long millis) {
        for (long ms = 0; ms < millis; ms += 2) {
            nowNanos += 2 * MS;
            scheduler.tick(nowNanos, cpus);
            jobs.stream().filter(Job::asked).forEach(job -> scheduler.pass(job, nowNanos));
        }
    }
}
