package quartier.degrade.core;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import quartier.degrade.core.Job.State;
import quartier.degrade.core.policy.Policy;

/**
 * Permits and who holds them. No threads, no clock: the same calls at the same times give the same decisions.
 * Not safe for threads; {@link Dispatcher} sees to that.
 *
 * <p>A permit is not counted but held: it is membership in {@code running}, so none is lost or doubled.
 */
public final class Scheduler {
    /** What becomes of a job that arrives or gives up waiting. */
    public enum Verdict { RUN, WAIT, REJECT }

    /** A look at a thread says nothing before it had time to wake up. */
    private static final long LOOK_AFTER_NANOS = 1_000_000;
    /** Who has not got to its handler by then is taken for what it seems to be, at the next tick. */
    private static final long UNSURE_NANOS = 100_000_000;
    private static final long TICK_NANOS = 1_000_000;
    private static final long TICK_CALM_NANOS = 2_000_000;

    private Settings settings;
    private Policy policy;
    private final RunQueues queues = new RunQueues();
    private final Set<Job> running = new LinkedHashSet<>();
    private final Set<Job> loose = new LinkedHashSet<>();
    private final List<Job> granted = new ArrayList<>();
    private final Questions questions = new Questions();
    private final Company company = new Company();
    private final Permits permits = new Permits();
    private final WakeUps wakeUps = new WakeUps();
    private boolean open;
    private long nrOpened;

    public Scheduler(Settings settings) {
        configure(settings, 0);
    }

    /** New settings, also while jobs are there: those of a class that is gone keep what it had. */
    public void configure(Settings newSettings, long nowNanos) {
        settings = newSettings;
        policy = newSettings.policy().get();
        permits.configure(newSettings);
        company.end(queues.all(), nowNanos);
        queues.configure(newSettings.classes());
        if (newSettings.mode() == Settings.Mode.ON) {
            grant(nowNanos);
        } else {
            release(nowNanos);
        }
    }

    /** A job for a request on this thread. It is not there before it arrives. This alone may be called by any thread. */
    public Job job(Request request, Thread thread, long nowNanos) {
        Classifier now = queues.classifier();
        Job job = new Job(now.queue(request), request, thread, nowNanos);
        // Whoever may be sent away at the door is not let in before anybody knows whether it may be.
        job.unsure = job.workClass().admission().isUnbounded() && now.isUnsure(request, job.queue);
        return job;
    }

    /** A job for a part of a request that runs on this thread. Also by any thread. */
    public Job part(Job whole, Thread thread, long nowNanos) {
        return new Job(whole.queue, null, thread, nowNanos);
    }

    public Verdict arrive(Job job, long nowNanos) {
        RunQueue queue = job.queue;
        queues.include(queue);
        queue.counts.arrived++;
        queue.nrPresent++;
        queue.nrUnsure += job.unsure ? 1 : 0;
        job.counted = true;
        if (!enforcing() && settings.mode() == Settings.Mode.DRY_RUN) {
            rehearse(queue);
        }
        lookWhoIsAlone(nowNanos);
        if (runs(job, nowNanos)) {
            return Verdict.RUN;
        }
        if (queue.nrQueued >= queue.workClass().admission().queueMax()) {
            return reject(job, nowNanos);
        }
        return wait(job, nowNanos);
    }

    /** What was admitted as a whole begins: nothing sends it away. */
    public Verdict arrivePart(Job part, long nowNanos) {
        queues.include(part.queue);
        part.queue.counts.parts++;
        part.queue.nrParts++;
        part.counted = true;
        lookWhoIsAlone(nowNanos);
        return goOn(part, nowNanos);
    }

    /** Whether a job that is away is the caller's from here on, to be resumed. */
    public boolean claim(Job job) {
        boolean away = job.state == State.AWAY;
        if (away) {
            job.become(State.NEW, job.sinceNanos);
        }
        return away;
    }

    /** A job that was claimed goes on on this thread. */
    public Verdict resume(Job job, Thread thread, long nowNanos) {
        job.thread = thread;
        lookWhoIsAlone(nowNanos);
        return goOn(job, nowNanos);
    }

    private Verdict goOn(Job job, long nowNanos) {
        job.begun = true;
        return runs(job, nowNanos) ? Verdict.RUN : wait(job, nowNanos);
    }

    /** Who does not know its class yet does not wait in another one's queue: it is asked for that once it knows. */
    private boolean runs(Job job, long nowNanos) {
        boolean getsPermit = ordering() && !queues.anyWaits() && isFreeFor(job.queue, null);
        if (ordering() && !getsPermit && !job.unsure) {
            return false;
        }
        begin(job, getsPermit ? State.RUNNING : State.LOOSE, nowNanos);
        return true;
    }

    private Verdict wait(Job job, long nowNanos) {
        enqueue(job, nowNanos);
        grant(nowNanos);
        return job.state == State.RUNNING ? Verdict.RUN : Verdict.WAIT;
    }

    /** What a dry run can say: these would have had to wait, those would have been sent away. */
    private void rehearse(RunQueue queue) {
        int nrAhead = loose.size() + running.size();
        if (nrAhead >= settings.nrPermits()) {
            queue.counts.wouldWait++;
            long nrInQueue = (long) queue.nrPresent - 1 - settings.nrPermits();
            if (nrInQueue >= queue.workClass().admission().queueMax()) {
                queue.counts.wouldReject++;
            }
        }
    }

    private Verdict reject(Job job, long nowNanos) {
        beSure(job);
        job.queue.counts.rejected++;
        job.queue.nrPresent--;
        job.request = null;
        job.become(State.DONE, nowNanos);
        return Verdict.REJECT;
    }

    private void begin(Job job, State state, long nowNanos) {
        job.begun = true;
        job.become(state, nowNanos);
        (state == State.RUNNING ? running : loose).add(job);
    }

    private void enqueue(Job job, long nowNanos) {
        boolean inTurn = job.turnNanos > 0 && job.turnNanos < turnNanos();
        if (!inTurn) {
            job.turnNanos = 0;
        }
        beSure(job);
        queues.add(job, inTurn, nowNanos);
    }

    private long turnNanos() {
        return settings.sliceNanos() * policy.nrSlicesInTurn();
    }

    /** A job at a yield point. Returns whether it runs on; else it is in its queue. */
    public boolean pass(Job job, long nowNanos) {
        questions.answer(job);
        if (!ordering()) {
            return true;
        }
        boolean hadPermit = job.state == State.RUNNING;
        if (hadPermit) {
            settle(job, nowNanos);
            job.sinceNanos = nowNanos;
            if (!queues.anyWaits()) {
                return true;
            }
            running.remove(job);
        } else if (job.state == State.LOOSE) {
            loose.remove(job);
        } else {
            return true;
        }
        enqueue(job, nowNanos);
        grant(nowNanos);
        boolean waits = job.state == State.WAITING;
        if (hadPermit && waits) {
            job.queue.counts.yields++;
        }
        return !waits;
    }

    /** A job that is asked cannot yield now. It is asked again later. */
    public void decline(Job job, long nowNanos) {
        questions.withdraw(job, nowNanos);
    }

    public void leave(Job job, long nowNanos) {
        if (job.state == State.DONE) {
            return;
        }
        remove(job, nowNanos);
        beSure(job);
        job.become(State.DONE, nowNanos);
        if (!job.counted) {
            // Something went wrong as it arrived.
            return;
        }
        if (job.part) {
            job.queue.nrParts--;
        } else {
            job.request = null;
            job.queue.nrPresent--;
            job.queue.counts.completed++;
            job.queue.latencies.add(nowNanos - job.arrivedNanos + wakeUps.beforeEntryNanos(nowNanos), nowNanos);
        }
        grant(nowNanos);
    }

    /** Its thread leaves a job that may be incomplete: it holds nothing until it is resumed, or complete. */
    public void depart(Job job, long nowNanos) {
        if (job.complete) {
            leave(job, nowNanos);
        } else if (job.state != State.DONE) {
            remove(job, nowNanos);
            beSure(job);
            job.become(State.AWAY, nowNanos);
            grant(nowNanos);
        }
    }

    /** A job is complete: it leaves now, or when its thread does. */
    public void complete(Job job, long nowNanos) {
        job.complete = true;
        if (job.state == State.AWAY) {
            leave(job, nowNanos);
        }
    }

    /** The class of a job now that its handler is known. By any thread. */
    public RunQueue queue(Job job, String handler) {
        Request request = job.request;
        return request == null ? job.queue : queues.classifier().queue(request.handledBy(handler), job.queue);
    }

    /** A job that runs goes on in another class. */
    public void move(Job job, RunQueue queue, long nowNanos) {
        if (job.state != State.RUNNING && job.state != State.LOOSE) {
            return;
        }
        if (job.state == State.RUNNING) {
            settle(job, nowNanos);
            job.sinceNanos = nowNanos;
        }
        beSure(job);
        job.queue.counts.moved++;
        job.queue.nrPresent--;
        job.queue = queue;
        queues.include(queue);
        queue.counts.arrived++;
        queue.nrPresent++;
        knowsItsClass(job, nowNanos);
    }

    /** A job that runs stays in its class now that its handler is known. */
    public void stay(Job job, long nowNanos) {
        beSure(job);
        knowsItsClass(job, nowNanos);
    }

    private void knowsItsClass(Job job, long nowNanos) {
        lookWhoIsAlone(nowNanos);
        if (ordering() && job.state == State.LOOSE) {
            questions.ask(job, nowNanos);
        }
    }

    private void beSure(Job job) {
        job.queue.nrUnsure -= job.unsure && job.counted ? 1 : 0;
        job.unsure = false;
    }

    /** A job that waits has waited as long as it may. */
    public Verdict giveUp(Job job, long nowNanos) {
        if (job.state != State.WAITING) {
            return job.state == State.DONE ? Verdict.REJECT : Verdict.RUN;
        }
        boolean sentAway = !job.begun
                && nowNanos - job.arrivedNanos >= job.queue.workClass().admission().waitMaxNanos();
        remove(job, nowNanos);
        if (sentAway) {
            return reject(job, nowNanos);
        }
        job.queue.counts.overdue++;
        begin(job, State.LOOSE, nowNanos);
        return Verdict.RUN;
    }

    /** Until when a job that waits does so at most. */
    public long deadlineNanos(Job job) {
        long waitMaxNanos = settings.waitMaxNanos();
        if (!job.begun) {
            waitMaxNanos = Math.min(waitMaxNanos, job.queue.workClass().admission().waitMaxNanos());
        }
        return job.sinceNanos + Math.min(waitMaxNanos, job.waitMaxNanos);
    }

    /** Takes a job out of wherever it is. Whoever calls this says what becomes of it. */
    private void remove(Job job, long nowNanos) {
        questions.answer(job);
        loose.remove(job);
        if (running.remove(job)) {
            settle(job, nowNanos);
        }
        queues.remove(job, nowNanos);
    }

    private void settle(Job job, long nowNanos) {
        long heldNanos = Math.max(0, nowNanos - job.sinceNanos);
        job.queue.counts.heldNanos += heldNanos;
        job.turnNanos += heldNanos;
        // What nobody else wanted is no reason to have less later.
        if (queues.anyWaits()) {
            policy.charge(job.queue, Math.min(heldNanos, queues.contendedForNanos(nowNanos)));
        }
    }

    /** Gives free permits to those whom the policy chooses. */
    private void grant(long nowNanos) {
        while (ordering() && queues.anyWaits() && running.size() < permits.nr()) {
            RunQueue queue = next(nowNanos, null);
            if (queue == null) {
                return;
            }
            Job job = queues.take(queue, nowNanos);
            begin(job, State.RUNNING, nowNanos);
            granted.add(job);
        }
    }

    /** The class that is next, once a job has handed on its permit; null if nobody who waits may have one. */
    private RunQueue next(long nowNanos, Job handingOn) {
        List<RunQueue> candidates = new ArrayList<>(queues.all().size());
        for (RunQueue queue : queues.all()) {
            if (queue.nrWaiting() > 0 && isFreeFor(queue, handingOn)) {
                candidates.add(queue);
            }
        }
        return candidates.isEmpty() ? null : policy.next(candidates, nowNanos);
    }

    /** Whether a permit is free for a class, once a job has handed on its own. */
    private boolean isFreeFor(RunQueue queue, Job handingOn) {
        int nrHeld = running.size() - (handingOn == null ? 0 : 1);
        RunQueue kept = policy.keepsOneFor(queues.all());
        if (nrHeld >= permits.nr() || kept == null || kept == queue) {
            return nrHeld < permits.nr();
        }
        int nrOthers = 0;
        for (Job job : running) {
            if (job != handingOn && job.queue != kept) {
                nrOthers++;
            }
        }
        return nrOthers < Math.max(1, permits.nr() - 1);
    }

    /** Looks after everything that does not come by itself. To be called {@link #tickNanos} after the last time. */
    public void tick(long nowNanos, Probe probe) {
        wakeUps.addLate(probe.lateNanos(), nowNanos);
        lookAfter(running, nowNanos);
        lookAfter(loose, nowNanos);
        policy.tick(queues.all(), nowNanos, enforcing());
        lookWhoIsAlone(nowNanos);
        permits.tick(nowNanos, queues.anyWaits(), probe);
        if (!ordering()) {
            return;
        }
        if (queues.anyWaits()) {
            lend(nowNanos, probe);
            running.forEach(job -> {
                if (job.asked || nowNanos - job.sinceNanos >= settings.sliceNanos() && isToHandOn(job, nowNanos)) {
                    questions.ask(job, nowNanos);
                }
            });
        }
        questions.recall(loose, settings.sliceNanos(), nowNanos, probe);
    }

    private boolean isToHandOn(Job job, long nowNanos) {
        return running.size() > permits.nr() || isOthersTurn(job, nowNanos);
    }

    /** Whether somebody else is to run now that a slice is over. If not, another slice begins. */
    private boolean isOthersTurn(Job job, long nowNanos) {
        // What it has had counts at once, or its class would be the one that had least for as long as it runs.
        settle(job, nowNanos);
        job.sinceNanos = nowNanos;
        RunQueue next = next(nowNanos, job);
        return next != null && (job.turnNanos >= turnNanos() || next != job.queue);
    }

    /** What was begun on a thread that has ended is over; what has run for long is what it seems to be. */
    private void lookAfter(Set<Job> jobs, long nowNanos) {
        List<Job> dead = List.of();
        for (Job job : jobs) {
            if (job.unsure && nowNanos - job.arrivedNanos >= UNSURE_NANOS) {
                beSure(job);
            }
            if (job.thread != null && job.thread.getState() == Thread.State.TERMINATED) {
                dead = dead.isEmpty() ? new ArrayList<>() : dead;
                dead.add(job);
            }
        }
        dead.forEach(job -> leave(job, nowNanos));
    }

    /** Whoever is blocked elsewhere lets somebody else run meanwhile. */
    private void lend(long nowNanos, Probe probe) {
        Iterator<Job> each = running.iterator();
        while (each.hasNext()) {
            Job job = each.next();
            if (nowNanos - job.sinceNanos >= LOOK_AFTER_NANOS && !probe.wantsCpu(job)) {
                each.remove();
                settle(job, nowNanos);
                questions.answer(job);
                job.queue.counts.lent++;
                job.become(State.LOOSE, nowNanos);
                loose.add(job);
            }
        }
        grant(nowNanos);
    }

    /** Lets everybody run who is there, and who comes, until {@link #close}. */
    public void open(long nowNanos) {
        nrOpened += open ? 0 : 1;
        open = true;
        release(nowNanos);
    }

    public void close() {
        open = false;
    }

    private void release(long nowNanos) {
        for (RunQueue queue : queues.all()) {
            while (queue.nrWaiting() > 0) {
                Job job = queues.take(queue, nowNanos);
                begin(job, State.LOOSE, nowNanos);
                granted.add(job);
            }
        }
        for (Job job : running) {
            settle(job, nowNanos);
            job.become(State.LOOSE, nowNanos);
            loose.add(job);
        }
        running.clear();
        questions.answerAll();
    }

    /** Where a class has become free, whoever waits runs; where it is not any more, whoever runs is asked back by and by. */
    private void lookWhoIsAlone(long nowNanos) {
        boolean mayBeFree = enforcing() && !permits.areReduced(nowNanos);
        boolean changed = mayBeFree
                ? company.look(queues.all(), settings, policy, nowNanos)
                : company.end(queues.all(), nowNanos);
        if (changed && company.isAnyFree()) {
            release(nowNanos);
        }
    }

    private boolean enforcing() {
        return settings.mode() == Settings.Mode.ON && !open;
    }

    /** Whether there is anything to order. */
    private boolean ordering() {
        return enforcing() && !company.isAnyFree();
    }

    /** Those who have got a permit, or their freedom, since this was last asked: their threads are to be woken. */
    public List<Job> takeGranted() {
        if (granted.isEmpty()) {
            return List.of();
        }
        List<Job> taken = List.copyOf(granted);
        granted.clear();
        return taken;
    }

    public boolean anyAsked() {
        return questions.any();
    }

    /** Whether there is anything that only a tick can do. */
    public boolean needsTicks() {
        return ordering() && (queues.anyWaits() || !loose.isEmpty());
    }

    /**
     * When the next tick is wanted, if any. Each takes a CPU from somebody who runs, so they are as rare as slices end, and a
     * millisecond apart only while somebody is blocked.
     */
    public long tickNanos() {
        long calmNanos = loose.isEmpty() ? TICK_CALM_NANOS : TICK_NANOS;
        return Math.max(TICK_NANOS, Math.min(calmNanos, settings.sliceNanos()));
    }

    public Settings settings() {
        return settings;
    }

    public Policy policy() {
        return policy;
    }

    /** How often everybody was let run. */
    public long nrOpened() {
        return nrOpened;
    }

    public boolean isOpen() {
        return open;
    }

    List<RunQueue> queues() {
        return queues.all();
    }

    /** A thread has waited so long for CPUs between two requests. */
    public void hasWaited(long nanos, long nowNanos) {
        wakeUps.addWaited(nanos, nowNanos);
    }

    /** A request came so long before it was at the server's entry, and if somebody slept, even longer. */
    public void hasComeBefore(long nanos, boolean slept, long nowNanos) {
        wakeUps.addFollowed(nanos, slept, nowNanos);
    }

    long unseenWaitNanos(long nowNanos) {
        return wakeUps.meanBeforeEntryNanos(nowNanos);
    }

    int nrPermits() {
        return permits.nr();
    }

    int nrRunning() {
        return running.size();
    }

    int nrRunning(RunQueue queue) {
        return (int) running.stream().filter(job -> job.queue == queue).count();
    }

    int nrLoose() {
        return loose.size();
    }

    int nrWaiting() {
        return queues.nrWaiting();
    }
}
