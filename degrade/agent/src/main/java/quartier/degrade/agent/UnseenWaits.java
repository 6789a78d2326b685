package quartier.degrade.agent;

import java.util.concurrent.atomic.AtomicLong;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.why.Schedstat;

/**
 * What threads wait for CPUs between two requests, as the kernel counts it: before the end of one is with its client, and before the next
 * one is at its entry. To ask the kernel takes some 10 µs, so it is asked of few.
 */
final class UnseenWaits {
    private static final long BETWEEN_NANOS = 20_000_000;
    private static final long NOT_ASKED = -1;

    private final AtomicLong nextNanos = new AtomicLong(System.nanoTime());
    /** What the kernel had counted of this thread at the end of its last request. */
    private final ThreadLocal<long[]> waitedNanos = ThreadLocal.withInitial(() -> new long[] {NOT_ASKED});

    /** A request has ended on this thread, which is the kernel's too. */
    void ended() {
        long nowNanos = System.nanoTime();
        long dueNanos = nextNanos.get();
        if (nowNanos - dueNanos < 0 || !nextNanos.compareAndSet(dueNanos, nowNanos + BETWEEN_NANOS)) {
            return;
        }
        Schedstat now = Schedstat.own();
        waitedNanos.get()[0] = now == null ? NOT_ASKED : now.waitedNanos();
    }

    /** The next one begins there. */
    void begins(Dispatcher dispatcher) {
        long[] before = waitedNanos.get();
        if (before[0] == NOT_ASKED) {
            return;
        }
        Schedstat now = Schedstat.own();
        if (now != null) {
            dispatcher.hasWaited(now.waitedNanos() - before[0]);
        }
        before[0] = NOT_ASKED;
    }
}
