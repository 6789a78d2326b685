package quartier.degrade.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static quartier.degrade.core.Simulation.classFor;

import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import quartier.degrade.core.WorkClass.Admission;
import quartier.degrade.core.policy.Curve;
import quartier.degrade.core.policy.Curve.Point;
import quartier.degrade.core.policy.Fair;
import quartier.degrade.core.policy.Policy;
import quartier.degrade.core.policy.Priority;
import quartier.degrade.core.policy.Target;
import quartier.degrade.core.policy.Weighted;

/** Policies on two simulated CPUs: the seed's experiment, 30 light clients of 4 ms and up to 40 heavy ones of 40 ms. */
class PolicyTest {
    private static final long MS = 1_000_000;
    private static final long S = 1000 * MS;

    private static Simulation simulation(Supplier<Policy> policy, WorkClass... classes) {
        return new Simulation(new Settings(2, 2 * MS, S, Settings.Mode.ON, policy, List.of(classes)));
    }

    private static Simulation overload(Supplier<Policy> policy, WorkClass light, WorkClass heavy) {
        return simulation(policy, light, heavy).clients(30, "light", 4 * MS).clients(40, "heavy", 40 * MS);
    }

    private static double p95Alone() {
        return simulation(Fair::new, classFor("light")).clients(30, "light", 4 * MS).run(5 * S).p95Millis("light");
    }

    private static void assertBelow(double bound, double value) {
        assertTrue(value < bound, value + " is not below " + bound);
    }

    @Test
    void fairGivesEveryRequestTheSame() {
        Simulation simulation = simulation(Fair::new, classFor("light"), classFor("heavy"))
                .clients(30, "light", 20 * MS)
                .clients(40, "heavy", 200 * MS)
                .run(10 * S);
        assertEquals(30.0 / 70, simulation.takeShare("light"), 0.03);
    }

    @Test
    void weightedGivesClassesTheirWeights() {
        Simulation simulation =
                overload(Weighted::new, classFor("light").withWeight(3), classFor("heavy")).run(5 * S);
        assertEquals(0.75, simulation.takeShare("light"), 0.02);
    }

    @Test
    void withinAClassASliceIsNoReasonToHandOn() {
        assertEquals(0, yieldsOf(Weighted::new, 16 * MS));
        assertTrue(yieldsOf(Fair::new, 16 * MS) > 100, "between requests it is");
        assertTrue(yieldsOf(Weighted::new, 40 * MS) > 10, "after a turn of ten slices it is");
    }

    private static long yieldsOf(Supplier<Policy> policy, long demandNanos) {
        return simulation(policy, classFor("heavy")).clients(40, "heavy", demandNanos).run(S).report("heavy").nrYields();
    }

    @Test
    void whoHadToHandOnInItsTurnIsTheNextOfItsClass() {
        Scheduler scheduler = new Scheduler(new Settings(
                1, 2 * MS, S, Settings.Mode.ON, Weighted::new, List.of(classFor("light"), classFor("heavy"))));
        Job first = arrive(scheduler, "heavy", 0);
        Job second = arrive(scheduler, "heavy", 0);
        Job light = arrive(scheduler, "light", 0);
        scheduler.tick(2 * MS, Simulation.BUSY);
        assertTrue(first.asked());
        assertFalse(scheduler.pass(first, 2 * MS));
        assertEquals(Job.State.RUNNING, light.state());
        scheduler.leave(light, 7 * MS);
        assertEquals(Job.State.RUNNING, first.state());
        assertEquals(Job.State.WAITING, second.state());
    }

    private static Job arrive(Scheduler scheduler, String className, long nowNanos) {
        Job job = scheduler.job(Simulation.requestOf(className), null, nowNanos);
        scheduler.arrive(job, nowNanos);
        return job;
    }

    @Test
    void aMinimumShareHoldsAgainstAWeight() {
        Simulation simulation = overload(
                        Weighted::new, classFor("light").withWeight(100), classFor("heavy").withMinimumShare(0.2))
                .run(10 * S);
        assertEquals(0.2, simulation.takeShare("heavy"), 0.03);
    }

    @Test
    void aClassThatSleptHasNoCredit() {
        Simulation simulation = simulation(Weighted::new, classFor("light"), classFor("heavy"))
                .clients(40, "heavy", 40 * MS)
                .run(5 * S)
                .clients(30, "light", 4 * MS);
        simulation.takeShare("heavy");
        simulation.run(S / 2);
        assertEquals(0.5, simulation.takeShare("light"), 0.06);
    }

    /** Who had what nobody else wanted has not had more than its share. */
    @Test
    void whatNobodyWantedIsNoDebt() {
        for (Supplier<Policy> policy : List.<Supplier<Policy>>of(
                Weighted::new, () -> Target.protect("light", 30 * MS), () -> level("light", 30 * MS))) {
            WorkClass bounded = classFor("light").withAdmission(new Admission(100, S, 503, 1));
            Settings settings = new Settings(3, 2 * MS, S, Settings.Mode.ON, policy, List.of(bounded, classFor("heavy")));
            Simulation simulation = new Simulation(settings, 2)
                    .clients(2, "light", 4 * MS)
                    .run(60 * S)
                    .clients(20, "heavy", 40 * MS);
            simulation.takeShare("light");
            assertTrue(simulation.run(S).takeShare("light") > 0.08, policy.get().name());
        }
    }

    @Test
    void priorityComesFirstAndNobodyStarves() {
        Simulation simulation = overload(
                        () -> new Priority(50 * MS), classFor("light").withPriority(5), classFor("heavy"))
                .run(5 * S);
        double fair = overload(Fair::new, classFor("light"), classFor("heavy")).run(5 * S).p95Millis("light");
        assertBelow(0.6 * fair, simulation.p95Millis("light"));
        assertTrue(simulation.report("heavy").nrCompleted() > 0, "ageing lets the heavy ones through");
        assertEquals(0, simulation.report("heavy").nrOverdue(), "before they give up");
    }

    @Test
    void protectHoldsItsTargetAndGivesTheRestAway() {
        double targetMillis = 1.5 * p95Alone();
        Simulation simulation = overload(
                        () -> Target.protect("light", (long) (targetMillis * MS)), classFor("light"), classFor("heavy"))
                .run(10 * S);
        simulation.takeShare("heavy");
        simulation.run(10 * S);
        assertEquals(targetMillis, simulation.p95Millis("light"), 0.1 * targetMillis);
        assertEquals(1.0 / 3, simulation.takeShare("heavy"), 0.07, "what the target leaves");
        assertFalse(isOutOfReach(simulation));
    }

    @Test
    void protectWastesNothingWhenItsClassIsAway() {
        Simulation simulation = simulation(() -> Target.protect("light", 10 * MS), classFor("light"), classFor("heavy"))
                .clients(40, "heavy", 40 * MS)
                .run(2 * S);
        assertEquals(2 * 2 * S, simulation.usedNanos.get("heavy"), 0.01 * 4 * S);
    }

    @Test
    void aTargetBelowWhatIsPossibleIsComeCloseTo() {
        Simulation simulation = overload(() -> Target.protect("light", MS), classFor("light"), classFor("heavy"))
                .run(10 * S);
        assertBelow(1.2 * p95Alone(), simulation.p95Millis("light"));
        assertTrue(simulation.takeShare("heavy") > 0.015, "even so the others get something");
        assertFalse(isOutOfReach(simulation), "not yet");
        assertTrue(isOutOfReach(simulation.run(5 * S)));
        simulation.stopClients("light");
        assertFalse(isOutOfReach(simulation.run(12 * S)), "nobody is there who could miss it");
        assertFalse(isOutOfReach(simulation.clients(1, "light", MS / 2).run(5 * S)), "one alone keeps it");
    }

    @Test
    void whatIsOnlyRehearsedSaysNothingAboutATarget() {
        Target target = level("light", MS);
        double before = target.othersShare();
        Settings settings = new Settings(2, 2 * MS, S, Settings.Mode.ON, () -> target, List.of(classFor("light"), classFor("heavy")));
        Simulation simulation = new Simulation(settings.withMode(Settings.Mode.DRY_RUN))
                .clients(30, "light", 4 * MS)
                .clients(10, "heavy", 40 * MS)
                .run(20 * S);
        assertEquals(before, target.othersShare());
        assertFalse(isOutOfReach(simulation));
        assertTrue(simulation.report("light").nrWouldWait() > 0);
    }

    @Test
    void whileNobodyElseIsThereNoShareIsMoved() {
        Target target = level("light", 20 * MS);
        Simulation simulation = simulation(() -> target, classFor("light"), classFor("heavy"));
        double before = target.othersShare();
        simulation.clients(30, "light", 4 * MS).run(20 * S);
        assertFalse(simulation.report("light").isFree(), "it misses its target");
        assertEquals(before, target.othersShare());
        assertTrue(isOutOfReach(simulation), "nobody can help it");
    }

    @Test
    void whatIsSlowAndWhatIsFastIsHeldAlike() {
        Simulation slow = overload(() -> level("heavy", 2 * S), classFor("light"), classFor("heavy")).run(30 * S);
        assertEquals(2000, slow.p95Millis("heavy"), 200);
        Simulation fast = simulation(() -> Target.protect("light", 15 * MS), classFor("light"), classFor("heavy"))
                .clients(30, "light", MS / 2)
                .clients(40, "heavy", 40 * MS)
                .run(30 * S);
        assertEquals(15, fast.p95Millis("light"), 1.5);
    }

    @Test
    void whereOthersDoNotHandOnOnePermitIsKeptFromThem() {
        int nrCpus = 2;
        Settings settings = new Settings(nrCpus + 1, 2 * MS, S, Settings.Mode.ON, () -> Target.protect("light", 8 * MS),
                List.of(classFor("light"), classFor("heavy")));
        Simulation simulation = new Simulation(settings, nrCpus)
                .stubborn("heavy")
                .clients(10, "heavy", 40 * MS)
                .clients(1, "light", 2 * MS)
                .run(10 * S);
        simulation.usedNanos.clear();
        simulation.run(10 * S);
        // It has at least two thirds of a CPU; else it waits until one of three has ended.
        assertBelow(5, simulation.p95Millis("light"));
        long usedNanos = simulation.usedNanos.values().stream().mapToLong(nanos -> nanos).sum();
        assertEquals(nrCpus * 10 * S, usedNanos, 0.01 * nrCpus * 10 * S, "no CPU has nothing to do");
        simulation.stopClients("light");
        simulation.run(S);
        assertEquals(nrCpus + 1, simulation.scheduler.nrRunning(), "nobody is there to keep one for");
    }

    @Test
    void whereTheTargetIsMetWithoutThatNobodyIsHeld() {
        Simulation simulation = simulation(() -> Target.protect("light", 40 * MS), classFor("light"), classFor("heavy"))
                .clients(4, "light", 4 * MS)
                .clients(2, "heavy", 40 * MS)
                .run(20 * S);
        assertTrue(simulation.report("light").isFree() && simulation.report("heavy").isFree());
        assertEquals(0, simulation.report("heavy").nrYields());
        simulation.clients(40, "heavy", 40 * MS).run(S);
        assertFalse(simulation.report("heavy").isFree(), "now it is missed");
        simulation.run(20 * S);
        assertEquals(40, simulation.p95Millis("light"), 8);
        simulation.stopClients("heavy");
        simulation.clients(2, "heavy", 40 * MS).run(20 * S);
        assertTrue(simulation.report("heavy").isFree(), "few are here again");
    }

    /** Where few requests of others are far from a target that is far away, they have what the kernel would give them. */
    @Test
    void whoIsProtectedIsNotSlowedDownToItsTarget() {
        WorkClass bounded = classFor("light").withAdmission(new Admission(100, S, 503, 1));
        Simulation simulation = simulation(() -> Target.protect("light", 10 * S), bounded, classFor("heavy"))
                .clients(30, "light", 4 * MS)
                .clients(5, "heavy", 40 * MS)
                .run(5 * S);
        assertFalse(simulation.report("light").isFree(), "whoever may be sent away waits");
        simulation.takeShare("light");
        assertEquals(30.0 / 35, simulation.run(20 * S).takeShare("light"), 0.03);
        Simulation curve = simulation(() -> level("light", 10 * S), classFor("light"), classFor("heavy"))
                .clients(30, "light", 4 * MS)
                .clients(5, "heavy", 40 * MS)
                .run(25 * S);
        curve.takeShare("light");
        assertBelow(0.1, curve.run(5 * S).takeShare("light"));
    }

    @Test
    void whatWentWrongAtOnceIsTriedAgainMoreSeldom() {
        Simulation simulation = overload(
                () -> Target.protect("light", (long) (1.5 * p95Alone() * MS)), classFor("light"), classFor("heavy"));
        assertBelow(0.02, freePart(simulation, 300 * S));
    }

    /** The part of so much time in which nobody is held. */
    private static double freePart(Simulation simulation, long forNanos) {
        long freeNanos = 0;
        for (long nanos = 0; nanos < forNanos; nanos += 50 * MS) {
            simulation.run(50 * MS);
            freeNanos += simulation.report("heavy").isFree() ? 50 * MS : 0;
        }
        return (double) freeNanos / forNanos;
    }

    @Test
    void whoIsStuckWhileNobodyIsHeldMissesItsTargetToo() {
        Simulation simulation = simulation(() -> Target.protect("light", 20 * MS), classFor("light"), classFor("heavy"))
                .clients(6, "heavy", 400 * MS)
                .run(5 * S);
        assertTrue(simulation.report("heavy").isFree(), "nobody is there to be protected");
        // By turns among all it takes 3.5 times a second: none has ended yet.
        simulation.clients(1, "light", S).run(3 * S);
        assertFalse(simulation.report("heavy").isFree());
    }

    private static Scheduler protects(long p95Nanos) {
        return new Scheduler(new Settings(2, 2 * MS, S, Settings.Mode.ON, () -> Target.protect("light", p95Nanos),
                List.of(classFor("light"), classFor("heavy"))));
    }

    /** A tick every 100 ms, as where nobody needs any, and requests of 10 ms around each of them. */
    @Test
    void whoIsHereAtATickHasNotBeenHereSinceTheLast() {
        Scheduler scheduler = protects(40 * MS);
        Job heavy = arrive(scheduler, "heavy", 1);
        for (long nowNanos = 1; nowNanos < 100 * S; nowNanos += 200 * MS) {
            scheduler.tick(nowNanos, Simulation.BUSY);
            Job light = arrive(scheduler, "light", nowNanos + 95 * MS);
            scheduler.tick(nowNanos + 100 * MS, Simulation.BUSY);
            scheduler.leave(light, nowNanos + 105 * MS);
            assertTrue(heavy.queue.isFree(), nowNanos / MS + " ms");
        }
    }

    @Test
    void oneThatHangsAmongManyThatDoNotIsNoReasonToHoldAnybody() {
        Scheduler scheduler = protects(40 * MS);
        Job hangs = arrive(scheduler, "light", 1);
        for (long nowNanos = 1; nowNanos < 100 * S; nowNanos += 500 * MS) {
            Job light = arrive(scheduler, "light", nowNanos);
            scheduler.leave(light, nowNanos + 10 * MS);
            for (long tickNanos = 100 * MS; tickNanos <= 500 * MS; tickNanos += 100 * MS) {
                scheduler.tick(nowNanos + tickNanos, Simulation.BUSY);
            }
            assertTrue(hangs.queue.isFree(), nowNanos / MS + " ms");
        }
    }

    @Test
    void onePauseThatAllMetIsNoReasonEither() {
        Scheduler scheduler = protects(20 * MS);
        arrive(scheduler, "heavy", 1);
        for (long nowNanos = 1; nowNanos < 100 * S; nowNanos += 100 * MS) {
            boolean isPause = (nowNanos / MS) % 10_000 < 100;
            for (int at = 0; at < 50; at++) {
                Job light = arrive(scheduler, "light", nowNanos);
                scheduler.leave(light, nowNanos + (isPause ? 50 * MS : 5 * MS));
            }
            scheduler.tick(nowNanos + 99 * MS, Simulation.BUSY);
            assertTrue(scheduler.queues().get(1).isFree(), nowNanos / MS + " ms");
        }
    }

    /** One light request of 2 ms among 20 heavy ones that the kernel would let take turns with it. */
    @Test
    void fewThatManyWouldCrowdOutAreSeldomLeftToThem() {
        Simulation simulation = simulation(() -> Target.protect("light", 12 * MS), classFor("light"), classFor("heavy"))
                .clients(20, "heavy", 40 * MS)
                .clients(1, "light", 2 * MS);
        assertBelow(0.02, freePart(simulation, 600 * S));
        assertBelow(1.1 * 12, simulation.p95Millis("light"));
    }

    @Test
    void whereTheProtectedAreGoneItIsTriedWithoutHoldingAnybody() {
        Simulation simulation = simulation(() -> Target.protect("light", 8 * MS), classFor("light"), classFor("heavy"))
                .clients(2, "light", 4 * MS)
                .clients(6, "heavy", 40 * MS)
                .run(10 * S);
        assertFalse(simulation.report("heavy").isFree());
        simulation.stopClients("light");
        assertTrue(simulation.run(40 * S).report("heavy").isFree());
    }

    @Test
    void aClassThatGoesWithItsQueueIsNoReasonToHoldAnybody() {
        WorkClass bounded = classFor("heavy").withAdmission(new Admission(5, S, 503, 1));
        Supplier<Policy> policy = () -> Target.protect("light", 40 * MS);
        Scheduler scheduler = new Scheduler(new Settings(2, 2 * MS, S, Settings.Mode.ON, policy, List.of(classFor("light"), bounded)));
        Job late = arrive(scheduler, "heavy", 1);
        assertFalse(late.queue.isFree());
        scheduler.configure(new Settings(2, 2 * MS, S, Settings.Mode.ON, policy, List.of(classFor("light"), classFor("other"))), 2);
        Job light = arrive(scheduler, "light", 3);
        assertTrue(light.queue.isFree());
    }

    private static Target level(String name, long targetNanos) {
        return Target.curve(name, "load", new Curve(List.of(new Point(0, targetNanos))));
    }

    @Test
    void whoeverIsAloneNeedsNoPermit() {
        Simulation simulation = simulation(() -> level("light", 200 * MS), classFor("light"), classFor("heavy"))
                .clients(30, "light", 4 * MS)
                .run(S / 2);
        assertEquals(2, simulation.scheduler.nrRunning(), "it was not alone for long");
        simulation.run(S);
        assertTrue(simulation.report("light").isFree());
        assertEquals(30, simulation.scheduler.nrLoose());
        assertFalse(simulation.scheduler.needsTicks());
        simulation.clients(1, "heavy", 400 * MS).run(30 * MS);
        assertFalse(simulation.report("light").isFree());
        assertEquals(2, simulation.scheduler.nrRunning(), "all were asked back: " + simulation.scheduler.nrLoose());
        assertEquals(0, simulation.scheduler.nrLoose());
        simulation.stopClients("heavy");
        simulation.run(3 * S);
        assertTrue(simulation.report("light").isFree(), "alone again");
    }

    @Test
    void whoeverComesAgainIsAsAloneAsBefore() {
        Simulation simulation = simulation(() -> Target.protect("light", 200 * MS), classFor("light"), classFor("heavy"))
                .clients(5, "light", 4 * MS)
                .run(2 * S);
        simulation.stopClients("light");
        simulation.run(S / 2).clients(5, "light", 4 * MS).run(MS);
        assertTrue(simulation.report("light").isFree());
    }

    /** Until its handler is known each request is of the class that asks for none. */
    private static Scheduler byHandler(int nrPermits, WorkClass rest) {
        Rule byHandler = new Rule(List.of(), List.of(), Map.of(), List.of(Glob.className("x.Light")));
        WorkClass light = new WorkClass("light", byHandler, 1, 0, 0, Admission.UNBOUNDED);
        return new Scheduler(
                new Settings(nrPermits, 2 * MS, S, Settings.Mode.ON, Weighted::new, List.of(light, rest)));
    }

    @Test
    void whoeverIsAloneByItsHandlersIsToo() {
        Scheduler scheduler = byHandler(2, WorkClass.plain("rest"));
        Job job = handled(scheduler, "x.Light", 0);
        // No thread has it, so it wants no CPU.
        Job away = handled(scheduler, "x.Rest", 0);
        scheduler.depart(away, 1);
        scheduler.tick(1, Simulation.BUSY);
        long nowNanos = 2 * S;
        scheduler.leave(job, nowNanos);
        job = handled(scheduler, "x.Light", nowNanos);
        assertTrue(scheduler.queues().get(0).isFree());
        Job unsure = arrive(scheduler, "rest", nowNanos);
        scheduler.tick(nowNanos + 99 * MS, Simulation.BUSY);
        assertTrue(scheduler.queues().get(0).isFree(), "it may be a light one");
        scheduler.tick(nowNanos + 100 * MS, Simulation.BUSY);
        assertFalse(scheduler.queues().get(0).isFree());
        scheduler.leave(unsure, nowNanos + 101 * MS);
        scheduler.leave(job, nowNanos + 101 * MS);
        handled(scheduler, "x.Light", nowNanos + 102 * MS);
        nowNanos += 2 * S;
        handled(scheduler, "x.Light", nowNanos);
        assertTrue(scheduler.queues().get(0).isFree());
        assertTrue(scheduler.claim(away));
        scheduler.resume(away, null, nowNanos);
        assertFalse(scheduler.queues().get(0).isFree(), "who comes back is company");
    }

    @Test
    void whoDoesNotKnowItsClassYetWaitsForItsHandlerFirst() {
        Scheduler scheduler = byHandler(1, WorkClass.plain("rest"));
        Job first = handled(scheduler, "x.Rest", 0);
        Job light = arrive(scheduler, "rest", 1);
        assertEquals(Job.State.LOOSE, light.state());
        assertFalse(light.asked());
        scheduler.move(light, scheduler.queue(light, "x.Light"), 2);
        assertTrue(light.asked());
        assertFalse(scheduler.pass(light, 3));
        assertEquals("light: 1 of 1 wait", light.queue.toString());
        Job rest = arrive(scheduler, "rest", 4);
        assertEquals(Job.State.LOOSE, rest.state());
        scheduler.stay(rest, 5);
        assertTrue(rest.asked());
        scheduler.leave(first, 6);
        assertEquals(Job.State.RUNNING, light.state());
    }

    @Test
    void whoMayBeSentAwayWaitsAtTheDoor() {
        Scheduler scheduler = byHandler(1, WorkClass.plain("rest").withAdmission(new Admission(1, S, 503, 1)));
        arrive(scheduler, "rest", 0);
        assertEquals(Job.State.WAITING, arrive(scheduler, "rest", 0).state());
        assertEquals(Job.State.DONE, arrive(scheduler, "rest", 0).state());
    }

    private static Job handled(Scheduler scheduler, String handler, long nowNanos) {
        Job job = arrive(scheduler, "rest", nowNanos);
        RunQueue queue = scheduler.queue(job, handler);
        if (queue == job.queue) {
            scheduler.stay(job, nowNanos);
        } else {
            scheduler.move(job, queue, nowNanos);
        }
        return job;
    }

    @Test
    void whoeverMayBeOvertakenIsReady() {
        assertFalse(isFreeAlone(Fair::new, classFor("light"), 10), "between requests there is an order");
        assertTrue(isFreeAlone(Weighted::new, classFor("light"), 10));
        assertFalse(isFreeAlone(Weighted::new, classFor("light"), 40), "a crowd is not got back soon");
        assertFalse(isFreeAlone(Weighted::new, classFor("light").withAdmission(new Admission(50, S, 503, 1)), 10));
        assertFalse(isFreeAlone(() -> new Priority(S), classFor("light"), 10));
        assertTrue(isFreeAlone(() -> new Priority(S), classFor("light").withPriority(1), 40));
        assertTrue(isFreeAlone(() -> Target.protect("light", S), classFor("light"), 40));
        assertFalse(isFreeAlone(() -> level("heavy", S), classFor("light"), 10));
        assertFalse(isFreeAlone(() -> Target.protect("light", MS), classFor("light"), 10), "it misses its target");
    }

    private static boolean isFreeAlone(Supplier<Policy> policy, WorkClass light, int nrClients) {
        return simulation(policy, light, classFor("heavy").withPriority(1))
                .clients(nrClients, "light", 4 * MS)
                .run(3 * S)
                .report("light")
                .isFree();
    }

    private static boolean isOutOfReach(Simulation simulation) {
        return simulation.scheduler.policy().aim().orElseThrow().outOfReach();
    }

    @Test
    void theCurveIsFollowedOverItsRange() {
        Curve curve = new Curve(List.of(new Point(0, 70 * MS), new Point(40, 150 * MS)));
        for (int nrHeavy : new int[] {10, 20, 30, 40}) {
            Simulation simulation = simulation(
                            () -> Target.curve("light", "heavy", curve), classFor("light"), classFor("heavy"))
                    .clients(30, "light", 4 * MS)
                    .clients(nrHeavy, "heavy", 40 * MS)
                    .run(15 * S);
            double wantedMillis = curve.at(nrHeavy) / 1e6;
            assertEquals(wantedMillis, simulation.p95Millis("light"), 0.1 * wantedMillis, nrHeavy + " heavy");
        }
    }

    @Test
    void whatWaitsTooLongToBeginIsSentAway() {
        Simulation simulation = overload(
                        Fair::new,
                        classFor("light"),
                        classFor("heavy").withAdmission(new Admission(5, 20 * MS, 429, 3)))
                .run(S);
        ClassReport heavy = simulation.report("heavy");
        assertTrue(heavy.nrRejected() > 0 && heavy.nrCompleted() > 0, heavy.toString());
        assertEquals(0, simulation.report("light").nrRejected());
        assertEquals(heavy.nrArrived(), heavy.nrCompleted() + heavy.nrRejected() + heavy.nrPresent());
    }

    @Test
    void aCurveIsStraightBetweenItsPoints() {
        Curve curve = new Curve(List.of(new Point(10, 100), new Point(20, 300)));
        assertEquals(100, curve.at(0));
        assertEquals(200, curve.at(15));
        assertEquals(300, curve.at(99));
    }
}
