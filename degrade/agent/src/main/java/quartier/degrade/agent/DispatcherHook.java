package quartier.degrade.agent;

import java.util.function.Supplier;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.Job;
import quartier.degrade.core.Request;
import quartier.degrade.core.Tasks;
import quartier.degrade.core.WorkClass.Admission;
import quartier.degrade.gate.ConnectionStep;
import quartier.degrade.gate.Hook;
import quartier.degrade.gate.Occupant;
import quartier.degrade.gate.Tally;
import quartier.degrade.servers.Entries;
import quartier.degrade.servers.Server;
import quartier.degrade.why.Watch;

/** From the gate to the dispatcher. */
final class DispatcherHook implements Hook {
    private final Dispatcher dispatcher;
    private final RuleWatch rules;
    private final Tasks tasks = new Tasks();
    private final Away away = new Away();
    private final UnseenWaits unseenWaits = new UnseenWaits();
    private final Looks looks = new Looks();
    /** Null while nobody asks why. */
    private volatile Watch watch;

    DispatcherHook(Dispatcher dispatcher, RuleWatch rules) {
        this.dispatcher = dispatcher;
        this.rules = rules;
    }

    /**
     * What a thread is at: a job, and the request that it is, unless it is a part of one.
     *
     * @param told whether the server says when the request is complete
     */
    private record Seated(Job job, Server server, Object request, boolean told) implements Occupant {
        @Override
        public boolean isAsked() {
            return job.asked();
        }
    }

    @Override
    public Occupant begin(String serverName, Object request, Object response, Object callback) {
        if (Thread.currentThread() instanceof OwnThread) {
            return null;
        }
        Server server = Server.named(serverName);
        Object identity = server.identity(request);
        Job known = away.get(identity);
        if (known != null && known.state() != Job.State.DONE) {
            return resumed(known, server, identity);
        }
        Request asked = server.request(request);
        rules.saw(asked);
        if (looks.isFollowing()) {
            looks.entered(server.connection(identity), dispatcher::hasComeBefore);
        }
        long kernelThread = KernelThreads.current();
        if (kernelThread != 0) {
            unseenWaits.begins(dispatcher);
        }
        Job job = noted(kernelThread, () -> dispatcher.enter(asked, kernelThread));
        if (job.state() != Job.State.DONE) {
            return new Seated(job, server, identity, isTold(job, server, request, identity));
        }
        Tally.end();
        Admission admission = job.workClass().admission();
        server.reject(request, response, callback, admission.rejectCode(), admission.retryAfterSeconds());
        return REJECTED;
    }

    /** A request begins on this thread, or goes on there, and whoever asks where its time goes hears of it. */
    private Job noted(long kernelThread, Supplier<Job> begins) {
        Tally.begin();
        Watch asking = watch;
        if (asking == null) {
            return begins.get();
        }
        asking.begin(kernelThread);
        Job job = asking.inGate(begins);
        if (job.state() == Job.State.DONE) {
            asking.forget();
        }
        return job;
    }

    /** From now on it is noted where the time of requests goes; null for no longer. */
    void setWatch(Watch newWatch) {
        watch = newWatch;
    }

    /** Has us told when the request is complete. If that fails, it is complete when its thread leaves it. */
    private boolean isTold(Job job, Server server, Object request, Object identity) {
        try {
            return server.whenComplete(request, () -> complete(job, identity));
        } catch (RuntimeException fault) {
            fault(fault);
            return false;
        }
    }

    @Override
    public Occupant resume(String serverName, Object request) {
        Server server = Server.named(serverName);
        Object identity = server.identity(request);
        Job known = away.get(identity);
        return known == null ? null : resumed(known, server, identity);
    }

    private Seated resumed(Job known, Server server, Object identity) {
        unseenWaits.forget();
        long kernelThread = KernelThreads.current();
        Job job = noted(kernelThread, () -> dispatcher.resume(known, kernelThread));
        // Where another thread has not left it yet, this one does a part of it.
        return job == known ? new Seated(job, server, identity, true) : new Seated(job, null, null, false);
    }

    @Override
    public void point(Occupant seated, boolean mayYield) {
        Job job = ((Seated) seated).job;
        Watch asking = watch;
        if (asking == null || !mayYield) {
            dispatcher.point(job, mayYield);
            return;
        }
        asking.inGate(() -> {
            dispatcher.point(job, true);
            return null;
        });
    }

    @Override
    public void end(Occupant seated) {
        Tally.end();
        Seated left = (Seated) seated;
        Job job = left.job;
        Watch asking = watch;
        if (asking != null) {
            asking.end(job.className());
        }
        leave(left, job);
        // Whoever goes on in its place may take its CPU at once; its client has its answer by then.
        if (job.kernelThread() != 0 && left.server != null) {
            unseenWaits.ended();
        }
    }

    private void leave(Seated left, Job job) {
        if (left.server == null || !left.told && !left.server.isAway(left.request)) {
            dispatcher.leave(job);
            return;
        }
        away.put(left.request, job);
        dispatcher.depart(job);
        if (job.state() == Job.State.DONE) {
            away.remove(left.request);
        }
    }

    @Override
    public void finish(String server, Object request) {
        Job job = away.get(request);
        if (job != null) {
            complete(job, request);
        }
    }

    private void complete(Job job, Object identity) {
        dispatcher.complete(job);
        away.remove(identity);
    }

    @Override
    public void handler(Occupant seated, String server, Object handler) {
        String name = Entries.handler(server, handler);
        dispatcher.handledBy(((Seated) seated).job, name, !Entries.handsOn(name));
    }

    @Override
    public void connection(ConnectionStep step, Object of) {
        switch (step) {
            case ANSWERS -> looks.answers(of);
            case AWAITS -> looks.awaits(of);
            case LOOKS -> looks.begins(of);
            case LOOKED -> looks.ended(of);
            case SELECTS -> looks.selects(of);
            case SELECTED -> looks.selected(of);
        }
    }

    @Override
    public void handOver(Occupant seated, Object task) {
        tasks.put(task, ((Seated) seated).job);
    }

    @Override
    public Object taken(Object task) {
        return tasks.take(task);
    }

    @Override
    public Occupant beginPart(Object whole) {
        unseenWaits.forget();
        return new Seated(dispatcher.enterPart((Job) whole, KernelThreads.current()), null, null, false);
    }

    @Override
    public void fault(Throwable thrown) {
        if (dispatcher.countFault() == 1) {
            Say.say("something of ours went wrong, and the request ran on (further ones are only counted): " + thrown);
        }
    }
}
