package quartier.degrade.core;

import java.util.List;
import quartier.degrade.core.policy.Policy;

/**
 * Where one class of work is alone, or all is well without us, there is nothing to order. Then permits would only cost time: classes are
 * free of them until that changes. Under the dispatcher's lock.
 */
final class Company {
    /** Who comes more often than this is never far: getting a crowd back each time would cost more than it saves. */
    private static final long ALONE_NANOS = 1_000_000_000;

    /** Who was the only one here when somebody was; null for several were. */
    private RunQueue last;
    private long sinceNanos;
    private boolean isAnyFree;

    /** Looks who is here, to be called whenever somebody arrives. Returns whether any class has got its freedom, or lost it. */
    boolean look(List<RunQueue> queues, Settings settings, Policy policy, long nowNanos) {
        if (policy.holdsNobody() && areAllUnbounded(settings)) {
            last = null;
            return setFree(queues, true, null, nowNanos);
        }
        int nrHere = 0;
        RunQueue only = null;
        for (RunQueue queue : queues) {
            if (queue.nrHere() > 0) {
                nrHere++;
                only = queue;
            }
        }
        // Between two of its requests nobody is here: it is as alone as before.
        if (nrHere == 0 && last != null && last.free) {
            return false;
        }
        RunQueue alone = nrHere == 1 ? only : null;
        if (nrHere > 0 && alone != last) {
            last = alone;
            sinceNanos = nowNanos;
        }
        boolean letGo = alone != null
                && nowNanos - sinceNanos >= ALONE_NANOS
                && alone.workClass().admission().isUnbounded()
                && alone.nrHere() <= policy.nrFreeMax(alone, queues, settings.nrPermits());
        return setFree(queues, false, letGo ? alone : null, nowNanos);
    }

    /** Who may be sent away at the door has to be kept waiting there. */
    private static boolean areAllUnbounded(Settings settings) {
        for (WorkClass workClass : settings.classes()) {
            if (!workClass.admission().isUnbounded()) {
                return false;
            }
        }
        return true;
    }

    /** Nobody is free, and whoever is alone is so from now on. Returns whether anybody was free. */
    boolean end(List<RunQueue> queues, long nowNanos) {
        sinceNanos = nowNanos;
        return setFree(queues, false, null, nowNanos);
    }

    private boolean setFree(List<RunQueue> queues, boolean all, RunQueue alone, long nowNanos) {
        boolean changed = false;
        isAnyFree = false;
        for (RunQueue queue : queues) {
            boolean free = all || queue == alone;
            if (queue.free && !free) {
                sinceNanos = nowNanos;
            }
            changed |= free != queue.free;
            isAnyFree |= free;
            queue.free = free;
        }
        return changed;
    }

    boolean isAnyFree() {
        return isAnyFree;
    }
}
