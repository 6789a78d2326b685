package quartier.degrade.core;

import java.util.List;

/** Whether one class of work has been the only one here for a while. Under the dispatcher's lock. */
final class Company {
    /** Who comes more often than this is never far: getting a crowd back each time would cost more than it saves. */
    private static final long ALONE_NANOS = 1_000_000_000;

    private RunQueue last;
    private long sinceNanos;

    /** The class that has been alone for long enough, or null. To be asked whenever something arrives. */
    RunQueue alone(List<RunQueue> queues, long nowNanos) {
        RunQueue only = null;
        for (RunQueue queue : queues) {
            if (queue.nrPresent + queue.nrParts > 0) {
                if (only != null) {
                    last = null;
                    return null;
                }
                only = queue;
            }
        }
        // Between two of its requests nobody is here: it is as alone as before.
        if (only == null) {
            return null;
        }
        if (only != last) {
            startAgain(nowNanos);
            last = only;
        }
        return nowNanos - sinceNanos >= ALONE_NANOS ? only : null;
    }

    void startAgain(long nowNanos) {
        sinceNanos = nowNanos;
    }
}
