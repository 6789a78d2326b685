package quartier.degrade.agent;

import java.util.concurrent.atomic.AtomicLong;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.why.Schedstat;

/**
 * What threads wait for CPUs between two requests, as the kernel counts it: mostly after the next one has come, and before it is at its
 * entry. To ask the kernel takes some 10 µs, so it is asked of few.
 */
final class UnseenWaits {
    private static final long BETWEEN_NANOS = 20_000_000;
    /** Whoever was given a CPU more often in between did something else there. */
    private static final long NR_SLICES_MAX = 8;

    private final AtomicLong nextNanos = new AtomicLong(System.nanoTime());
    /** Nanoseconds and slices of this thread at the end of its last request, if it was asked then. A thread keeps that: no class of ours. */
    private final ThreadLocal<long[]> atEnd = new ThreadLocal<>();

    /** A request has ended on this thread, which is the kernel's too. */
    void ended() {
        long nowNanos = System.nanoTime();
        long dueNanos = nextNanos.get();
        if (nowNanos - dueNanos >= 0 && nextNanos.compareAndSet(dueNanos, nowNanos + BETWEEN_NANOS)) {
            Schedstat now = Schedstat.ofLastTick();
            atEnd.set(now == null ? null : new long[] {now.waitedNanos(), now.nrSlices()});
        }
    }

    /** The next one begins there. */
    void begins(Dispatcher dispatcher) {
        long[] before = atEnd.get();
        if (before == null) {
            return;
        }
        forget();
        Schedstat now = Schedstat.ofLastTick();
        if (now != null && now.nrSlices() - before[1] <= NR_SLICES_MAX) {
            dispatcher.hasWaited(now.waitedNanos() - before[0]);
        }
    }

    /** It does something else in between. */
    void forget() {
        atEnd.remove();
    }
}
