package quartier.degrade.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.AbstractOwnableSynchronizer;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import quartier.degrade.core.Job.State;
import quartier.degrade.core.Settings.Mode;
import quartier.degrade.core.policy.Fair;
import quartier.degrade.core.policy.Policy;
import quartier.degrade.core.policy.Target;
import quartier.degrade.core.policy.Weighted;

/** Real threads, parked and woken, interrupted and failing. */
@Timeout(60)
class DispatcherStressTest {
    private static final long MS = 1_000_000;
    private static final Probe BY_STATE = new Probe() {
        @Override
        public boolean wantsCpu(Job job) {
            return job.thread().getState() == Thread.State.RUNNABLE;
        }

        @Override
        public boolean hasRun(Job job) {
            return wantsCpu(job);
        }
    };

    private static Dispatcher dispatcher(int nrPermits, long waitMaxNanos, Supplier<Policy> policy) {
        return new Dispatcher(
                new Settings(nrPermits, MS, waitMaxNanos, Mode.ON, policy,
                        List.of(Simulation.classFor("a"), WorkClass.plain("b"))),
                System::nanoTime,
                asked -> {});
    }

    /** Ticks until it is closed. */
    private static final class Controller implements AutoCloseable {
        private final AtomicBoolean stopped = new AtomicBoolean();
        private final Thread thread;

        Controller(Dispatcher dispatcher, Probe probe) {
            thread = new Thread(() -> {
                while (!stopped.get()) {
                    dispatcher.tick(probe);
                    LockSupport.parkNanos(MS);
                }
            });
            thread.start();
        }

        @Override
        public void close() throws InterruptedException {
            stopped.set(true);
            thread.join();
        }
    }

    private static void spin(Dispatcher dispatcher, Job job, long forNanos) {
        long untilNanos = System.nanoTime() + forNanos;
        while (System.nanoTime() - untilNanos < 0) {
            dispatcher.point(job, true);
        }
    }

    /** One request: some work, perhaps a nap, a lock held, or an exception. */
    private static void serve(Dispatcher dispatcher, Random random) throws InterruptedException {
        Job job = dispatcher.enter(Simulation.requestOf(random.nextBoolean() ? "a" : "b"), 0);
        assertTrue(job.state() != State.WAITING && job.state() != State.DONE, job.toString());
        try {
            for (int part = random.nextInt(4); part >= 0; part--) {
                spin(dispatcher, job, random.nextInt((int) MS));
                dispatcher.point(job, false);
                if (random.nextInt(10) == 0) {
                    Thread.sleep(2);
                }
                if (random.nextInt(20) == 0) {
                    throw new IllegalStateException("the application's own");
                }
            }
        } finally {
            dispatcher.leave(job);
        }
    }

    private static void storm(Supplier<Policy> policy) throws Exception {
        long seed = System.nanoTime();
        System.out.println("seed " + seed);
        Dispatcher dispatcher = dispatcher(2, 20 * MS, policy);
        AtomicLong nrServed = new AtomicLong();
        ConcurrentLinkedQueue<Throwable> unexpected = new ConcurrentLinkedQueue<>();
        List<Thread> threads = new ArrayList<>();
        try (Controller controller = new Controller(dispatcher, BY_STATE)) {
            for (int at = 0; at < 16; at++) {
                Random random = new Random(seed + at);
                Thread thread = new Thread(() -> {
                    for (int request = 0; request < 60; request++) {
                        nrServed.incrementAndGet();
                        try {
                            serve(dispatcher, random);
                        } catch (InterruptedException | IllegalStateException expected) {
                            // The application's own affair.
                        } catch (Throwable thrown) {
                            unexpected.add(thrown);
                        }
                    }
                });
                threads.add(thread);
                thread.start();
            }
            Random random = new Random(seed - 1);
            while (threads.stream().anyMatch(Thread::isAlive)) {
                threads.get(random.nextInt(threads.size())).interrupt();
                if (random.nextInt(50) == 0) {
                    dispatcher.open();
                }
                Thread.sleep(1);
            }
        }
        assertTrue(unexpected.isEmpty(), () -> "seed " + seed + ": " + unexpected);
        long nrCompleted = dispatcher.report().stream().mapToLong(ClassReport::nrCompleted).sum();
        assertEquals(nrServed.get(), nrCompleted, "seed " + seed);
        assertTrue(dispatcher.report().stream().allMatch(r -> r.nrPresent() == 0 && r.nrWaiting() == 0));
    }

    @Test
    void stormUnderEachPolicy() throws Exception {
        storm(Fair::new);
        storm(Weighted::new);
        storm(() -> Target.protect("a", 5 * MS));
    }

    /** Each request begins on one thread, goes on on another, and is completed by a third, at any time. */
    @Test
    void requestsThatGoOnElsewhereEndOnce() throws Exception {
        long seed = System.nanoTime();
        System.out.println("seed " + seed);
        int nrRequests = 400;
        Dispatcher dispatcher = dispatcher(1, 20 * MS, Fair::new);
        LinkedBlockingQueue<Job> elsewhere = new LinkedBlockingQueue<>();
        LinkedBlockingQueue<Job> completing = new LinkedBlockingQueue<>();
        try (Controller controller = new Controller(dispatcher, BY_STATE)) {
            Random beginning = new Random(seed + 1);
            Thread first = each(nrRequests, () -> {
                Job job = dispatcher.enter(Simulation.requestOf("a"), 0);
                boolean early = beginning.nextBoolean();
                if (early) {
                    elsewhere.add(job);
                }
                spin(dispatcher, job, MS / 10);
                dispatcher.depart(job);
                if (!early) {
                    elsewhere.add(job);
                }
            });
            Random random = new Random(seed);
            Thread second = each(nrRequests, () -> {
                Job job = elsewhere.take();
                boolean early = random.nextInt(3) == 0;
                if (early) {
                    completing.add(job);
                }
                Job resumed = dispatcher.resume(job, 0);
                spin(dispatcher, resumed, MS / 10);
                if (resumed == job) {
                    dispatcher.depart(job);
                } else {
                    dispatcher.leave(resumed);
                }
                if (!early) {
                    completing.add(job);
                }
            });
            Thread third = each(nrRequests, () -> dispatcher.complete(completing.take()));
            for (Thread thread : List.of(first, second, third)) {
                thread.join();
            }
        }
        ClassReport report = dispatcher.report().get(0);
        assertEquals(nrRequests, report.nrCompleted(), "seed " + seed);
        assertEquals(0, report.nrPresent(), "seed " + seed);
        assertTrue(report.nrParts() < nrRequests, "many have left before they go on");
    }

    /** What a thread does again and again. */
    private interface Step {
        void run() throws InterruptedException;
    }

    private static Thread each(int nr, Step step) {
        Thread thread = new Thread(() -> {
            try {
                for (int at = 0; at < nr; at++) {
                    step.run();
                }
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        });
        thread.start();
        return thread;
    }

    @Test
    void aRequestThatIsAwayHoldsNoPermit() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 60_000 * MS, Fair::new);
        try (Controller controller = new Controller(dispatcher, Simulation.BUSY)) {
            Job away = dispatcher.enter(Simulation.requestOf("a"), 0);
            dispatcher.depart(away);
            assertEquals(State.AWAY, away.state());
            Job other = dispatcher.enter(Simulation.requestOf("b"), 0);
            assertEquals(State.RUNNING, other.state(), "it got the permit at once");
            assertEquals(1, dispatcher.report().get(0).nrPresent(), "it is here all the same");
            dispatcher.leave(other);
            assertEquals(away, dispatcher.resume(away, 0));
            assertEquals(State.RUNNING, away.state());
            dispatcher.complete(away);
            assertEquals(State.RUNNING, away.state(), "its thread has not left it");
            dispatcher.depart(away);
            assertEquals(State.DONE, away.state());
        }
        assertEquals(1, dispatcher.report().get(0).nrCompleted());
    }

    @Test
    void anInterruptAtAYieldPointIsTheProgramsOwn() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 10_000 * MS, Fair::new);
        try (Controller controller = new Controller(dispatcher, Simulation.BUSY)) {
            Job holder = dispatcher.enter(Simulation.requestOf("a"), 0);
            AtomicBoolean kept = new AtomicBoolean();
            Thread waiter = new Thread(() -> {
                Job job = dispatcher.enter(Simulation.requestOf("a"), 0);
                kept.set(Thread.currentThread().isInterrupted());
                dispatcher.leave(job);
            });
            waiter.start();
            while (waiter.getState() != Thread.State.TIMED_WAITING) {
                Thread.onSpinWait();
            }
            waiter.interrupt();
            waiter.join(50);
            assertTrue(waiter.isAlive(), "an interrupt is no permit");
            dispatcher.leave(holder);
            waiter.join();
            assertTrue(kept.get(), "the interrupt is there afterwards");
        }
    }

    @Test
    void anUnparkThatComesMeanwhileIsTheProgramsOwn() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 60_000 * MS, Fair::new);
        try (Controller controller = new Controller(dispatcher, Simulation.BUSY)) {
            Job holder = dispatcher.enter(Simulation.requestOf("a"), 0);
            Thread waiter = new Thread(() -> {
                dispatcher.leave(dispatcher.enter(Simulation.requestOf("a"), 0));
                LockSupport.park();
            });
            waiter.start();
            while (waiter.getState() != Thread.State.TIMED_WAITING) {
                Thread.onSpinWait();
            }
            LockSupport.unpark(waiter);
            Thread.sleep(20);
            dispatcher.leave(holder);
            waiter.join(5000);
            assertFalse(waiter.isAlive(), "the program's park waits for what has come");
        }
    }

    /** The lock is held by a tick, for as long as whoever is told by it takes. */
    @Test
    void anUnparkThatComesAtTheLockIsTheProgramsOwn() throws Exception {
        Semaphore told = new Semaphore(0);
        Semaphore mayGoOn = new Semaphore(0);
        Dispatcher dispatcher = new Dispatcher(
                new Settings(1, MS, 60_000 * MS, Mode.ON, Fair::new, List.of(Simulation.classFor("a"))),
                System::nanoTime,
                asked -> {
                    told.release();
                    mayGoOn.acquireUninterruptibly();
                });
        mayGoOn.release(100);
        Thread leaver = new Thread(() -> {
            Job job = dispatcher.enter(Simulation.requestOf("a"), 0);
            mayGoOn.drainPermits();
            told.drainPermits();
            Thread ticking = new Thread(() -> dispatcher.tick(Simulation.BUSY));
            ticking.start();
            told.acquireUninterruptibly();
            dispatcher.leave(job);
            LockSupport.park();
        });
        leaver.start();
        while (!(LockSupport.getBlocker(leaver) instanceof AbstractOwnableSynchronizer)) {
            Thread.onSpinWait();
        }
        LockSupport.unpark(leaver);
        Thread.sleep(20);
        mayGoOn.release(100);
        leaver.join(5000);
        assertFalse(leaver.isAlive(), "the program's park waits for what has come");
    }

    @Test
    void withoutAControllerEverybodyRuns() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 60_000 * MS, Fair::new);
        Job holder = dispatcher.enter(Simulation.requestOf("a"), 0);
        long beganNanos = System.nanoTime();
        Thread waiter = new Thread(() -> dispatcher.leave(dispatcher.enter(Simulation.requestOf("a"), 0)));
        waiter.start();
        waiter.join(5000);
        assertFalse(waiter.isAlive(), "a dead controller holds nobody up");
        assertTrue(System.nanoTime() - beganNanos >= Dispatcher.PULSE_MAX_NANOS);
        dispatcher.leave(holder);
    }

    @Test
    void whoIsBlockedElsewhereHoldsNoPermit() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 60_000 * MS, Fair::new);
        try (Controller controller = new Controller(dispatcher, BY_STATE)) {
            Job asleep = dispatcher.enter(Simulation.requestOf("a"), 0);
            Thread other = new Thread(() -> {
                Job job = dispatcher.enter(Simulation.requestOf("a"), 0);
                spin(dispatcher, job, 5 * MS);
                dispatcher.leave(job);
            });
            other.start();
            other.join(5000);
            assertFalse(other.isAlive(), "it got the sleeper's permit");
            assertEquals(State.LOOSE, asleep.state());
            dispatcher.leave(asleep);
        }
    }

    @Test
    void aThreadThatDiesWithItsPermitGivesItBack() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 60_000 * MS, Fair::new);
        try (Controller controller = new Controller(dispatcher, BY_STATE)) {
            Thread dying = new Thread(() -> dispatcher.enter(Simulation.requestOf("a"), 0));
            dying.start();
            dying.join();
            Job next = dispatcher.enter(Simulation.requestOf("a"), 0);
            spin(dispatcher, next, 5 * MS);
            assertTrue(next.state() == State.RUNNING, next.toString());
            dispatcher.leave(next);
        }
        assertTrue(dispatcher.report().stream().allMatch(report -> report.nrPresent() == 0));
    }

    /** Without being woken it would look by itself after a tenth of a second, so the quickest of many tells. */
    @Test
    void whoseTurnItIsIsWokenAtOnce() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 60_000 * MS, Fair::new);
        long quickestNanos = Long.MAX_VALUE;
        try (Controller controller = new Controller(dispatcher, Simulation.BUSY)) {
            for (int at = 0; at < 10; at++) {
                Job holder = dispatcher.enter(Simulation.requestOf("a"), 0);
                AtomicLong ranNanos = new AtomicLong();
                Thread waiter = new Thread(() -> {
                    Job job = dispatcher.enter(Simulation.requestOf("a"), 0);
                    ranNanos.set(System.nanoTime());
                    dispatcher.leave(job);
                });
                waiter.start();
                while (waiter.getState() != Thread.State.TIMED_WAITING) {
                    Thread.onSpinWait();
                }
                long leftNanos = System.nanoTime();
                dispatcher.leave(holder);
                waiter.join();
                quickestNanos = Math.min(quickestNanos, ranNanos.get() - leftNanos);
            }
        }
        assertTrue(quickestNanos < 50 * MS, "woken after " + quickestNanos + " ns");
    }

    /** The JDKs that still can. */
    @Test
    @SuppressWarnings({"removal", "deprecation"})
    void aThreadThatIsKilledWhileItWaitsLeavesNothing() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 60_000 * MS, Fair::new);
        try (Controller controller = new Controller(dispatcher, Simulation.BUSY)) {
            Job holder = dispatcher.enter(Simulation.requestOf("a"), 0);
            Thread waiter = new Thread(() -> dispatcher.enter(Simulation.requestOf("a"), 0));
            waiter.setUncaughtExceptionHandler((thread, expected) -> {});
            waiter.start();
            while (waiter.getState() != Thread.State.TIMED_WAITING) {
                Thread.onSpinWait();
            }
            try {
                waiter.stop();
            } catch (UnsupportedOperationException newer) {
                dispatcher.leave(holder);
                waiter.join();
                return;
            }
            waiter.join();
            dispatcher.leave(holder);
        }
        assertTrue(dispatcher.report().stream().allMatch(r -> r.nrPresent() == 0 && r.nrWaiting() == 0));
    }

    @Test
    void aStackThatIsNearlyFullIsNoPlaceToYield() throws Exception {
        Dispatcher dispatcher = dispatcher(1, 50 * MS, Fair::new);
        try (Controller controller = new Controller(dispatcher, BY_STATE)) {
            Thread deep = new Thread(() -> {
                Job job = dispatcher.enter(Simulation.requestOf("a"), 0);
                try {
                    descend(dispatcher, job);
                } catch (StackOverflowError expected) {
                    // The application's own.
                }
                dispatcher.leave(job);
            });
            deep.start();
            for (int at = 0; at < 20; at++) {
                Job job = dispatcher.enter(Simulation.requestOf("a"), 0);
                spin(dispatcher, job, MS);
                dispatcher.leave(job);
            }
            deep.join();
        }
        assertTrue(dispatcher.report().stream().allMatch(report -> report.nrPresent() == 0));
    }

    private static int descend(Dispatcher dispatcher, Job job) {
        dispatcher.point(job, true);
        return descend(dispatcher, job) + 1;
    }
}
