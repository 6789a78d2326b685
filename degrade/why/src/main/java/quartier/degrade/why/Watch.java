package quartier.degrade.why;

import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** Notes of each request what only its own thread can: what the kernel counted of it, and how long the gate held it. */
public final class Watch {
    private final ThreadLocal<Noted> noted = new ThreadLocal<>();
    private final Set<Long> kernelThreads = ConcurrentHashMap.newKeySet();

    private static final class Noted {
        final RequestEvent event = new RequestEvent();
        final Schedstat before;
        long heldNanos;

        Noted(long kernelThread) {
            // Around what the kernel counts, so that its parts are no more than the whole.
            event.begin();
            event.kernelThread = kernelThread;
            event.from = System.nanoTime();
            before = kernelThread == 0 ? null : Schedstat.own();
        }
    }

    /**
     * A request begins on this thread.
     *
     * @param kernelThread the kernel's number of it, or 0 where what the kernel says is not about this request: of a
     *     virtual thread
     */
    public void begin(long kernelThread) {
        if (kernelThread != 0) {
            kernelThreads.add(kernelThread);
        }
        noted.set(new Noted(kernelThread));
    }

    /** What may be held by the gate. */
    public <T> T inGate(Supplier<T> passes) {
        Noted own = noted.get();
        if (own == null) {
            return passes.get();
        }
        long beganNanos = System.nanoTime();
        Schedstat before = own.before == null ? null : Schedstat.own();
        try {
            return passes.get();
        } finally {
            Schedstat after = before == null ? null : Schedstat.own();
            long nanos = System.nanoTime() - beganNanos;
            if (after != null) {
                nanos -= after.cpuNanos() - before.cpuNanos() + after.waitedNanos() - before.waitedNanos();
            }
            own.heldNanos += Math.max(0, nanos);
        }
    }

    /** Which threads have served, by the kernel's numbers. */
    public List<Long> kernelThreads() {
        return List.copyOf(kernelThreads);
    }

    /** The request was sent away. */
    public void forget() {
        noted.remove();
    }

    /** It has ended. */
    public void end(String className) {
        Noted own = noted.get();
        if (own == null) {
            return;
        }
        noted.remove();
        RequestEvent event = own.event;
        Schedstat after = own.before == null ? null : Schedstat.own();
        event.to = System.nanoTime();
        event.end();
        event.workClass = className;
        event.held = own.heldNanos;
        event.cpu = after == null ? -1 : after.cpuNanos() - own.before.cpuNanos();
        event.runQueue = after == null ? -1 : after.waitedNanos() - own.before.waitedNanos();
        event.slices = after == null ? -1 : after.nrSlices() - own.before.nrSlices();
        event.commit();
    }
}
