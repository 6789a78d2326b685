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
        final boolean isCounted;
        final Reading before;
        long heldNanos;

        Noted(long kernelThread) {
            isCounted = kernelThread != 0;
            before = reading();
            event.kernelThread = kernelThread;
            event.from = before.atNanos();
            event.begin();
        }

        Reading reading() {
            return isCounted ? Reading.own() : new Reading(System.nanoTime(), null);
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
        Reading before = own.reading();
        try {
            return passes.get();
        } finally {
            own.heldNanos += own.reading().blockedNanosSince(before);
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
        Schedstat before = own.before.counted();
        Schedstat after = own.reading().counted();
        boolean isKnown = before != null && after != null;
        // After what the kernel counts, so that its parts are no more than the whole.
        event.to = System.nanoTime();
        event.end();
        event.workClass = className;
        event.held = own.heldNanos;
        event.cpu = isKnown ? after.cpuNanos() - before.cpuNanos() : -1;
        event.runQueue = isKnown ? after.waitedNanos() - before.waitedNanos() : -1;
        event.slices = isKnown ? after.nrSlices() - before.nrSlices() : -1;
        event.commit();
    }
}
