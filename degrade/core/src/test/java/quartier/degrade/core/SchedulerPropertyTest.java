package quartier.degrade.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Supplier;
import java.util.stream.Stream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.IntRange;
import quartier.degrade.core.Job.State;
import quartier.degrade.core.Settings.Mode;
import quartier.degrade.core.policy.Curve;
import quartier.degrade.core.policy.Fair;
import quartier.degrade.core.policy.Policy;
import quartier.degrade.core.policy.Priority;
import quartier.degrade.core.policy.Target;
import quartier.degrade.core.policy.Weighted;

/**
 * Any order of any events. The dispatcher does one at a time, so these are all interleavings of threads, as far as
 * the scheduler can tell.
 */
class SchedulerPropertyTest {
    private static final long MS = 1_000_000;

    @Provide
    Arbitrary<Supplier<Policy>> policies() {
        return Arbitraries.of(
                Fair::new,
                Weighted::new,
                () -> new Priority(10 * MS),
                () -> Target.protect("a", 5 * MS),
                () -> Target.curve("a", "b", Curve.level(7 * MS)));
    }

    /** Whoever is of the last may turn out to be of the first. */
    private static List<WorkClass> classes(int queueMax) {
        return List.of(
                classFor("named", new Rule(List.of(Glob.path("c")), List.of(), Map.of(), List.of(Glob.className("x.Y")))),
                Simulation.classFor("a").withWeight(3).withPriority(2),
                Simulation.classFor("b").withMinimumShare(0.1)
                        .withAdmission(new WorkClass.Admission(queueMax, 3 * MS, 503, 1)),
                WorkClass.plain("c"));
    }

    /** A scheduler, everything that ever was in it, and a source of events. */
    private static final class World {
        final Settings settings;
        final Scheduler scheduler;
        final Random random;
        final boolean mixed;
        final List<Job> jobs = new ArrayList<>();
        long nowNanos = 1;
        long nrArrived;
        /** How often a class was free. */
        long nrFree;

        World(Settings settings, long seed) {
            this.settings = settings;
            this.scheduler = new Scheduler(settings);
            // Random's first numbers after small seeds are alike.
            this.random = new Random(seed * 0x9E3779B97F4A7C15L);
            this.mixed = random.nextBoolean();
        }

        void step() {
            // Now and then nothing happens for long: long enough to be alone.
            nowNanos += random.nextInt(random.nextInt(50) == 0 ? 750 * (int) MS : (int) MS);
            Job job = jobs.isEmpty() ? null : jobs.get(random.nextInt(jobs.size()));
            int event = random.nextInt(130);
            if (job == null || event < 20) {
                arrive();
            } else if (event >= 100) {
                goElsewhere(job, event);
            } else if (event < 40) {
                scheduler.leave(job, nowNanos);
            } else if (event < 60 && job.state() != State.WAITING) {
                scheduler.pass(job, nowNanos);
            } else if (event < 65) {
                scheduler.decline(job, nowNanos);
            } else if (event < 75) {
                giveUpIfLate(job);
            } else if (event < 97) {
                scheduler.tick(nowNanos, new Probe() {
                    @Override
                    public boolean wantsCpu(Job asked) {
                        return random.nextBoolean();
                    }

                    @Override
                    public boolean hasRun(Job asked) {
                        return random.nextBoolean();
                    }
                });
            } else {
                disturb(event);
            }
            jobs.removeIf(gone -> gone.state() == State.DONE);
        }

        private void arrive() {
            String path = isMixed() ? List.of("a", "b", "c").get(random.nextInt(3)) : "a";
            Job arrived = scheduler.job(Simulation.requestOf(path), null, nowNanos);
            scheduler.arrive(arrived, nowNanos);
            nrArrived++;
            jobs.add(arrived);
        }

        /** In half of the worlds nearly everything is of one class, so that it gets to be alone. */
        private boolean isMixed() {
            return mixed || random.nextInt(30) == 0;
        }

        /** What asynchronous requests and handlers do. */
        private void goElsewhere(Job job, int event) {
            boolean atWork = job.state() == State.RUNNING || job.state() == State.LOOSE;
            if (event < 105) {
                Job part = scheduler.part(job, null, nowNanos);
                scheduler.arrivePart(part, nowNanos);
                jobs.add(part);
            } else if (event < 112 && atWork && !job.part) {
                scheduler.depart(job, nowNanos);
            } else if (event < 119) {
                if (scheduler.claim(job)) {
                    scheduler.resume(job, null, nowNanos);
                }
            } else if (event < 124 && !job.part) {
                scheduler.complete(job, nowNanos);
            } else if (event < 127 && atWork) {
                scheduler.stay(job, nowNanos);
            } else if (!job.part && isMixed()) {
                List<RunQueue> queues = scheduler.queues();
                scheduler.move(job, queues.get(random.nextInt(queues.size())), nowNanos);
            }
        }

        private void giveUpIfLate(Job job) {
            if (job.state() == State.WAITING && nowNanos - scheduler.deadlineNanos(job) >= 0) {
                scheduler.giveUp(job, nowNanos);
            }
        }

        private void disturb(int event) {
            if (event == 97) {
                scheduler.open(nowNanos);
            } else if (event == 98) {
                scheduler.close();
            } else {
                Mode mode = Mode.values()[random.nextInt(3)];
                scheduler.configure(settings.withMode(mode), nowNanos);
            }
        }

        void check() {
            long nrRunning = count(State.RUNNING);
            assertEquals(nrRunning, scheduler.nrRunning(), "permits are held by those who run, and by nobody else");
            assertTrue(nrRunning <= settings.nrPermits(), "no permit is held twice");
            assertEquals(count(State.LOOSE), scheduler.nrLoose());
            assertEquals(count(State.WAITING), scheduler.nrWaiting());
            boolean enforcing = scheduler.settings().mode() == Mode.ON && !scheduler.isOpen();
            List<RunQueue> free = scheduler.queues().stream().filter(RunQueue::isFree).toList();
            if (!free.isEmpty()) {
                assertEquals(0, nrRunning + scheduler.nrWaiting(), "nobody needs a permit");
                boolean isNobodyElseHere = jobs.stream()
                        .allMatch(job -> job.queue.isFree() || job.unsure || job.state() == State.AWAY);
                assertTrue(isNobodyElseHere, "it is alone, or all are free");
                nrFree++;
            } else if (enforcing) {
                RunQueue kept = scheduler.policy().keepsOneFor(scheduler.queues());
                boolean keeps = kept != null && kept.nrWaiting() == 0 && settings.nrPermits() > 1;
                long nrLeast = settings.nrPermits() - (keeps ? 1 : 0);
                assertTrue(scheduler.nrWaiting() == 0 || nrRunning >= nrLeast, "no permit is lost");
            } else {
                assertEquals(0, scheduler.nrWaiting(), "nobody waits where nothing is enforced");
            }
            long nrPresent = scheduler.queues().stream().mapToLong(RunQueue::nrPresent).sum();
            assertEquals(jobs.stream().filter(job -> !job.part).count(), nrPresent);
            long nrParts = scheduler.queues().stream().mapToLong(queue -> queue.nrParts).sum();
            assertEquals(jobs.stream().filter(job -> job.part).count(), nrParts);
            for (RunQueue queue : scheduler.queues()) {
                Supplier<Stream<Job>> its = () -> jobs.stream().filter(job -> job.queue == queue);
                assertEquals(its.get().filter(job -> job.unsure).count(), queue.nrUnsure);
                assertEquals(its.get().filter(job -> job.state() == State.AWAY).count(), queue.nrAway);
            }
            assertTrue(scheduler.queues().stream().allMatch(queue -> queue.nrQueued >= 0
                    && queue.nrQueued <= queue.nrWaiting()));
            assertEquals(jobs.stream().anyMatch(Job::asked), scheduler.anyAsked());
        }

        private long count(State state) {
            return jobs.stream().filter(job -> job.state() == state).count();
        }

        void drain() {
            List.copyOf(jobs).forEach(job -> scheduler.leave(job, nowNanos));
            jobs.clear();
            check();
            long ended = ClassReport.of(scheduler, nowNanos).stream()
                    .mapToLong(report -> report.nrCompleted() + report.nrRejected())
                    .sum();
            assertEquals(nrArrived, ended, "every request ends once");
        }
    }

    @Property(tries = 500)
    void permitsAreNeitherLostNorDoubled(
            @ForAll("policies") Supplier<Policy> policy,
            @ForAll @IntRange(min = 1, max = 4) int nrPermits,
            @ForAll @IntRange(max = 3) int queueMax,
            @ForAll long seed) {
        World world =
                new World(new Settings(nrPermits, 2 * MS, 20 * MS, Mode.ON, policy, classes(queueMax)), seed);
        for (int step = 0; step < 300; step++) {
            world.step();
            world.check();
        }
        world.drain();
    }

    @Example
    void worldsGetToWhereAClassIsAlone() {
        long nrFree = nrFree(Weighted::new, classes(2));
        assertTrue(nrFree > 50, nrFree + " steps");
    }

    @Example
    void worldsGetToWhereNobodyIsHeldAndBack() {
        List<WorkClass> unbounded = List.of(Simulation.classFor("a"), Simulation.classFor("b"), WorkClass.plain("c"));
        long nrFree = nrFree(() -> Target.protect("a", 5 * MS), unbounded);
        assertTrue(nrFree > 1000 && nrFree < 20 * 300 - 1000, nrFree + " steps");
    }

    /** In so many steps of some worlds a class was free. */
    private static long nrFree(Supplier<Policy> policy, List<WorkClass> classes) {
        long nrFree = 0;
        for (int seed = 0; seed < 20; seed++) {
            World world = new World(new Settings(2, 2 * MS, 20 * MS, Mode.ON, policy, classes), seed);
            for (int step = 0; step < 300; step++) {
                world.step();
                world.check();
            }
            nrFree += world.nrFree;
        }
        return nrFree;
    }

    @Property(tries = 100)
    void theSameEventsGiveTheSameDecisions(@ForAll("policies") Supplier<Policy> policy, @ForAll long seed) {
        Settings settings = new Settings(2, 2 * MS, 20 * MS, Mode.ON, policy, classes(2));
        World first = new World(settings, seed);
        World second = new World(settings, seed);
        for (int step = 0; step < 200; step++) {
            first.step();
            second.step();
            assertEquals(first.jobs.toString(), second.jobs.toString());
        }
    }

    @Example
    void aClassThatGoesWhileARequestIsOnItsWayStillServesIt() {
        Settings settings = new Settings(1, 2 * MS, 20 * MS, Mode.ON, Fair::new, classes(2));
        Scheduler scheduler = new Scheduler(settings);
        Job first = scheduler.job(Simulation.requestOf("c"), null, 1);
        scheduler.arrive(first, 1);
        Job late = scheduler.job(Simulation.requestOf("a"), null, 1);
        scheduler.configure(
                new Settings(1, 2 * MS, 20 * MS, Mode.ON, Fair::new, List.of(WorkClass.plain("c"))), 2);
        assertEquals(Scheduler.Verdict.WAIT, scheduler.arrive(late, 3));
        scheduler.leave(first, 4);
        assertEquals(State.RUNNING, late.state());
    }

    @Example
    void aHandlerThatBecomesKnownMovesOnlyToAClassThatAsksForIt() {
        WorkClass named = classFor("named", new Rule(List.of(), List.of(), Map.of(), List.of(Glob.className("x.Y"))));
        WorkClass first = Simulation.classFor("a");
        WorkClass late = classFor("late", new Rule(List.of(), List.of(), Map.of(), List.of(Glob.className("x.*"))));
        Scheduler scheduler = new Scheduler(
                new Settings(1, 2 * MS, 20 * MS, Mode.ON, Fair::new, List.of(named, first, late, WorkClass.plain("c"))));
        Job job = scheduler.job(Simulation.requestOf("a"), null, 1);
        scheduler.arrive(job, 1);
        assertEquals("a", scheduler.queue(job, "x.Z").workClass().name(), "what comes later does not count");
        RunQueue queue = scheduler.queue(job, "x.Y");
        assertEquals("named", queue.workClass().name());
        scheduler.move(job, queue, 2);
        scheduler.leave(job, 3);
        List<ClassReport> reports = ClassReport.of(scheduler, 3);
        assertEquals(1, reports.get(0).nrCompleted());
        assertEquals(0, reports.get(1).nrCompleted());
        assertEquals(1, reports.get(1).nrMoved());
        Job other = scheduler.job(Simulation.requestOf("c"), null, 4);
        assertEquals("late", scheduler.queue(other, "x.Z").workClass().name());
    }

    private static WorkClass classFor(String name, Rule rule) {
        return new WorkClass(name, rule, 1, 0, 0, WorkClass.Admission.UNBOUNDED);
    }

    @Property(tries = 40)
    void nobodyWaitsBeyondTheBound(
            @ForAll("policies") Supplier<Policy> policy,
            @ForAll @IntRange(min = 1, max = 30) int nrA,
            @ForAll @IntRange(min = 1, max = 30) int nrB) {
        long waitMaxNanos = 50 * MS;
        Settings settings = new Settings(2, 2 * MS, waitMaxNanos, Mode.ON, policy, classes(Integer.MAX_VALUE));
        Simulation simulation = new Simulation(settings).clients(nrA, "a", 10 * MS).clients(nrB, "b", 30 * MS);
        for (int slice = 0; slice < 500; slice++) {
            simulation.run(MS);
            for (RunQueue queue : simulation.scheduler.queues()) {
                if (queue.nrWaiting() > 0) {
                    long waitedNanos = simulation.nowNanos - queue.headSinceNanos();
                    assertTrue(waitedNanos <= waitMaxNanos + MS, queue + " for " + waitedNanos);
                }
            }
        }
    }
}
