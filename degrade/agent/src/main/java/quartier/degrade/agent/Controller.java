package quartier.degrade.agent;

import java.util.concurrent.locks.LockSupport;
import quartier.degrade.core.Dispatcher;

/** The thread that looks after jobs while any wait, and sleeps while none do. */
final class Controller {
    private static final long REST_NANOS = 100_000_000;
    private static final int FAULTS_MAX = 100;

    private final Dispatcher dispatcher;
    private final ThreadProbe probe = new ThreadProbe();
    private final OwnThread thread = new OwnThread(this::run, "controller");
    private long lookedNanos = System.nanoTime();

    Controller(Dispatcher dispatcher) {
        this.dispatcher = dispatcher;
        thread.setPriority(Thread.MAX_PRIORITY);
    }

    void start() {
        dispatcher.setController(thread);
        thread.start();
    }

    void stop() {
        thread.awaitEnd();
    }

    private void sleep(long nanos) {
        long untilNanos = System.nanoTime() + nanos;
        LockSupport.parkNanos(this, nanos);
        probe.setLateNanos(System.nanoTime() - untilNanos);
    }

    /** Where more permits may be wanted; without it there are as many as there are. */
    private void lookAtCpus() {
        long nowNanos = System.nanoTime();
        if (nowNanos - lookedNanos < ThreadProbe.LOOK_NANOS) {
            return;
        }
        lookedNanos = nowNanos;
        if (dispatcher.settings().permitsMayGrow()) {
            probe.lookAtCpus(nowNanos);
        }
    }

    private void run() {
        int nrFaults = 0;
        while (!thread.isToldToEnd()) {
            try {
                long nextNanos = dispatcher.tick(probe);
                lookAtCpus();
                if (nextNanos > 0) {
                    sleep(nextNanos);
                } else {
                    dispatcher.rest();
                    sleep(REST_NANOS);
                }
            } catch (RuntimeException | Error thrown) {
                dispatcher.countFault();
                if (++nrFaults == FAULTS_MAX) {
                    // Without ticks everybody runs: see the pulse.
                    Say.say("the controller has failed " + nrFaults + " times and stops; requests run as without it: " + thrown);
                    return;
                }
            }
        }
    }
}
