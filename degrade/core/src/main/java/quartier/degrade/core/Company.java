package quartier.degrade.core;

import java.util.List;
import quartier.degrade.core.policy.Policy;

/**
 * Where one class of work is alone there may be nothing to order. Then permits would only cost it time: it is free of them until another
 * comes. Under the dispatcher's lock.
 */
final class Company {
    /** Who comes more often than this is never far: getting a crowd back each time would cost more than it saves. */
    private static final long ALONE_NANOS = 1_000_000_000;

    /** Who was the only one here when somebody was; null for several were. */
    private RunQueue last;
    private long sinceNanos;
    private RunQueue free;

    /** Looks who is here, to be called whenever somebody arrives. Returns whether a class has got its freedom, or lost it. */
    boolean look(List<RunQueue> queues, Settings settings, Policy policy, long nowNanos) {
        int nrHere = 0;
        RunQueue only = null;
        for (RunQueue queue : queues) {
            if (queue.nrHere() > 0) {
                nrHere++;
                only = queue;
            }
        }
        // Between two of its requests nobody is here: it is as alone as before.
        if (nrHere == 0) {
            return false;
        }
        only = nrHere == 1 ? only : null;
        if (only != last) {
            last = only;
            sinceNanos = nowNanos;
        }
        boolean letGo = only != null
                && nowNanos - sinceNanos >= ALONE_NANOS
                && only.workClass().admission().isUnbounded()
                && only.nrHere() <= policy.nrFreeMax(only, queues, settings.nrPermits());
        return setFree(letGo ? only : null, nowNanos);
    }

    /** Nobody is free, and whoever is alone is so from now on. Returns whether anybody was free. */
    boolean end(long nowNanos) {
        sinceNanos = nowNanos;
        return setFree(null, nowNanos);
    }

    private boolean setFree(RunQueue queue, long nowNanos) {
        if (queue == free) {
            return false;
        }
        if (free != null) {
            free.free = false;
            sinceNanos = nowNanos;
        }
        free = queue;
        if (free != null) {
            free.free = true;
        }
        return true;
    }

    boolean isAnyFree() {
        return free != null;
    }
}
