package quartier.degrade.agent;

import java.util.IdentityHashMap;
import java.util.Map;
import quartier.degrade.core.Job;

/** Requests that go on later, until they are complete. By what stands for them in their server. */
final class Away {
    private final Map<Object, Job> jobs = new IdentityHashMap<>();
    /** Read without the lock, by every request: mostly there are none. */
    private volatile boolean any;

    synchronized void put(Object identity, Job job) {
        jobs.put(identity, job);
        any = true;
    }

    Job get(Object identity) {
        return any && identity != null ? locked(identity) : null;
    }

    private synchronized Job locked(Object identity) {
        return jobs.get(identity);
    }

    Job remove(Object identity) {
        return any && identity != null ? removed(identity) : null;
    }

    private synchronized Job removed(Object identity) {
        Job job = jobs.remove(identity);
        any = !jobs.isEmpty();
        return job;
    }
}
