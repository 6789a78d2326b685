package quartier.degrade.agent;

import java.util.concurrent.locks.LockSupport;

/** A thread of the agent's: a daemon, and never a request. */
final class OwnThread extends Thread {
    private static final long END_MILLIS = 1000;

    OwnThread(Runnable work, String name) {
        super(work, "quartier-degrade-" + name);
        setDaemon(true);
    }

    /** Wakes it, and waits for it for a while: it has been told to end. */
    void awaitEnd() {
        LockSupport.unpark(this);
        try {
            join(END_MILLIS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
