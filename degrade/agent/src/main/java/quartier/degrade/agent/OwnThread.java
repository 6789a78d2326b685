package quartier.degrade.agent;

/** A thread of the agent's: a daemon, and never a request. */
final class OwnThread extends Thread {
    OwnThread(Runnable work, String name) {
        super(work, "quartier-degrade-" + name);
        setDaemon(true);
    }
}
