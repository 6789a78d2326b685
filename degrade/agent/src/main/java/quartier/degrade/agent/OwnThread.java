package quartier.degrade.agent;

import java.util.concurrent.locks.LockSupport;

/** A thread of the agent's: a daemon, and never a request. */
final class OwnThread extends Thread {
    private static final long END_MILLIS = 1000;

    private volatile boolean toldToEnd;

    OwnThread(Runnable work, String name) {
        super(work, "quartier-degrade-" + name);
        setDaemon(true);
    }

    /** Tells it to end, and wakes it. */
    void tellToEnd() {
        toldToEnd = true;
        LockSupport.unpark(this);
    }

    boolean isToldToEnd() {
        return toldToEnd;
    }

    /** Tells it to end, and waits for that for a while. */
    void awaitEnd() {
        tellToEnd();
        try {
            join(END_MILLIS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
