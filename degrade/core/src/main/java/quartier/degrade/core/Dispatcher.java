package quartier.degrade.core;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import quartier.degrade.core.Job.State;
import quartier.degrade.core.Scheduler.Verdict;
import quartier.degrade.core.policy.Aim;

/** The scheduler among threads: one lock, held as long as a decision takes, and each waiting thread parked. */
public final class Dispatcher {
    /** A controller whose last tick is older is taken for dead: everybody runs. */
    public static final long PULSE_MAX_NANOS = 250_000_000;
    /** Frames that the slow path needs at most, with room to spare. */
    private static final int STACK_PROBE_FRAMES = 200;

    private final Scheduler scheduler;
    private final LongSupplier clock;
    private final Consumer<Boolean> flag;
    private final ReentrantLock lock = new ReentrantLock();
    private final AtomicLong nrFaults = new AtomicLong();
    private volatile long pulseNanos;
    private volatile Thread controller;
    private boolean controllerRests;
    private boolean flagged;

    /** @param flag told whether any job is asked, whenever that changes, and with each tick */
    public Dispatcher(Settings settings, LongSupplier clock, Consumer<Boolean> flag) {
        this.scheduler = new Scheduler(settings);
        this.clock = clock;
        this.flag = flag;
        this.pulseNanos = clock.getAsLong();
    }

    /** The thread to wake when ticks are needed. */
    public void setController(Thread newController) {
        controller = newController;
    }

    /** A request begins on this thread. Returns its job, DONE if it is sent away; waits for its turn. */
    public Job enter(Request request, long kernelThread) {
        long nowNanos = clock.getAsLong();
        // Rules ask the server about its request: not under the lock.
        Job job = scheduler.job(request, Thread.currentThread(), nowNanos);
        return begun(job, kernelThread, () -> scheduler.arrive(job, nowNanos));
    }

    /** A part of a request begins on this thread: a job of its own, of the same class. Waits for its turn. */
    public Job enterPart(Job whole, long kernelThread) {
        long nowNanos = clock.getAsLong();
        Job part = scheduler.part(whole, Thread.currentThread(), nowNanos);
        return begun(part, kernelThread, () -> scheduler.arrivePart(part, nowNanos));
    }

    /**
     * A request goes on on this thread. Returns its job, or one for a part of it: the thread that had it may not have
     * left it yet. Waits for its turn.
     */
    public Job resume(Job job, long kernelThread) {
        if (!locked(() -> scheduler.claim(job))) {
            return enterPart(job, kernelThread);
        }
        Thread thread = Thread.currentThread();
        return begun(job, kernelThread, () -> scheduler.resume(job, thread, clock.getAsLong()));
    }

    private Job begun(Job job, long kernelThread, Supplier<Verdict> begin) {
        job.kernelThread = kernelThread;
        job.waitMaxNanos = VirtualThreads.waitMaxNanos(Thread.currentThread());
        try {
            if (locked(begin) == Verdict.WAIT) {
                await(job);
            }
        } catch (Throwable thrown) {
            leave(job);
            throw thrown;
        }
        return job;
    }

    /** A job at a yield point while some job is asked. */
    public void point(Job job, boolean mayYield) {
        if (!job.asked || !hasStack()) {
            return;
        }
        if (!mayYield) {
            locked(() -> {
                scheduler.decline(job, clock.getAsLong());
                return null;
            });
        } else if (!locked(() -> scheduler.pass(job, clock.getAsLong()))) {
            await(job);
        }
    }

    /** A request has ended, however. */
    public void leave(Job job) {
        locked(() -> {
            scheduler.leave(job, clock.getAsLong());
            return null;
        });
    }

    /** This thread leaves a request that may be incomplete, and go on elsewhere. */
    public void depart(Job job) {
        locked(() -> {
            scheduler.depart(job, clock.getAsLong());
            return null;
        });
    }

    /** A request is complete, whoever says so. */
    public void complete(Job job) {
        locked(() -> {
            scheduler.complete(job, clock.getAsLong());
            return null;
        });
    }

    /**
     * It has become known which class handles this job: its rules are asked again.
     *
     * @param isLast whether that class hands it on to no other
     */
    public void handledBy(Job job, String handler, boolean isLast) {
        RunQueue queue = scheduler.queue(job, handler);
        if (queue != job.queue) {
            locked(() -> {
                scheduler.move(job, queue, clock.getAsLong());
                return null;
            });
        } else if (job.unsure && isLast) {
            locked(() -> {
                scheduler.stay(job, clock.getAsLong());
                return null;
            });
        }
    }

    /** Parks until it is this job's turn. An interrupt is kept for later: to wait here is not the program's own wait. */
    private void await(Job job) {
        boolean interrupted = false;
        try {
            while (job.state == State.WAITING) {
                long nowNanos = clock.getAsLong();
                long aliveNanos = Math.max(pulseNanos, job.sinceNanos) + PULSE_MAX_NANOS - nowNanos;
                if (aliveNanos <= 0) {
                    open();
                    continue;
                }
                long leftNanos = locked(() -> scheduler.deadlineNanos(job)) - nowNanos;
                if (leftNanos <= 0) {
                    locked(() -> scheduler.giveUp(job, clock.getAsLong()));
                } else {
                    LockSupport.parkNanos(this, Math.min(leftNanos, aliveNanos));
                }
                interrupted |= Thread.interrupted();
            }
        } finally {
            giveBackUnpark();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Called by the controller. Returns after how long the next tick is wanted; 0 for when it is woken. */
    public long tick(Probe probe) {
        return locked(() -> {
            long nowNanos = clock.getAsLong();
            scheduler.close();
            scheduler.tick(nowNanos, probe);
            pulseNanos = nowNanos;
            tell(scheduler.anyAsked());
            return scheduler.needsTicks() ? scheduler.tickNanos() : 0;
        });
    }

    /** Called by the controller before it parks. Whoever needs ticks from now on wakes it. */
    public void rest() {
        locked(() -> controllerRests = true);
    }

    public void configure(Settings settings) {
        locked(() -> {
            scheduler.configure(settings, clock.getAsLong());
            return null;
        });
    }

    /** Lets everybody run, until the next tick. */
    public void open() {
        locked(() -> {
            scheduler.open(clock.getAsLong());
            return null;
        });
    }

    public List<ClassReport> report() {
        return locked(() -> ClassReport.of(scheduler, clock.getAsLong()));
    }

    /** What the policy holds a class to, if it does that. */
    public Optional<Aim> aim() {
        return locked(() -> scheduler.policy().aim());
    }

    public String policyName() {
        return locked(() -> scheduler.policy().name());
    }

    public Settings settings() {
        return locked(scheduler::settings);
    }

    /** A thread has waited so long for CPUs between two requests, as the kernel says. To be told of some of them. */
    public void hasWaited(long nanos) {
        locked(() -> {
            scheduler.hasWaited(nanos, clock.getAsLong());
            return null;
        });
    }

    /**
     * A request came so long before it was at the server's entry. To be told of some of them.
     *
     * @param slept whether the thread that saw it first slept then: until it woke up is not in it
     */
    public void hasComeBefore(long nanos, boolean slept) {
        locked(() -> {
            scheduler.hasComeBefore(nanos, slept, clock.getAsLong());
            return null;
        });
    }

    /** What a request waits on average before it is seen, by what threads have waited in the last second. */
    public long unseenWaitNanos() {
        return locked(() -> scheduler.unseenWaitNanos(clock.getAsLong()));
    }

    /** How many there are now. */
    public int nrPermits() {
        return locked(scheduler::nrPermits);
    }

    /** How often the controller was late, and everybody ran. */
    public long nrOpened() {
        return locked(scheduler::nrOpened);
    }

    /** How often something of ours went wrong and the request ran on. */
    public long nrFaults() {
        return nrFaults.get();
    }

    /** Returns how many there are now. */
    public long countFault() {
        return nrFaults.incrementAndGet();
    }

    private void tell(boolean anyAsked) {
        flagged = anyAsked;
        flag.accept(anyAsked);
    }

    /** Changes the state, then does what follows from that: sets the flag, wakes whose turn it is. */
    private <T> T locked(Supplier<T> change) {
        List<Job> granted = List.of();
        boolean wakeController = false;
        boolean contended = !lock.tryLock();
        if (contended) {
            lock.lock();
        }
        try {
            return change.get();
        } finally {
            try {
                granted = scheduler.takeGranted();
                if (flagged != scheduler.anyAsked()) {
                    tell(!flagged);
                }
                if (controllerRests && scheduler.needsTicks()) {
                    controllerRests = false;
                    wakeController = true;
                }
            } finally {
                lock.unlock();
            }
            for (Job job : granted) {
                LockSupport.unpark(job.thread);
            }
            if (wakeController) {
                LockSupport.unpark(controller);
            }
            if (contended && Thread.currentThread() != controller) {
                giveBackUnpark();
            }
        }
    }

    /**
     * Somebody may have unparked this thread for the program's own sake while it was parked here, for its turn or for
     * the lock, and that has been taken. A park that returns without reason is allowed; one that never returns is not.
     */
    private static void giveBackUnpark() {
        LockSupport.unpark(Thread.currentThread());
    }

    /**
     * A stack that ends inside the scheduler would leave it half changed. One that is too short for it is no
     * place to yield.
     */
    private static boolean hasStack() {
        try {
            return descend(STACK_PROBE_FRAMES) >= 0;
        } catch (StackOverflowError none) {
            return false;
        }
    }

    private static int descend(int nrFrames) {
        return nrFrames == 0 ? 0 : descend(nrFrames - 1);
    }
}
