package quartier.degrade.agent;

import java.lang.ref.WeakReference;
import java.util.Arrays;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import quartier.degrade.why.Schedstat;

/**
 * When requests came, where the server does not serve at once what it has found at one look: by then others wait that nobody has looked
 * for yet.
 *
 * <ul>
 *   <li>What woke a looker that slept came as long before the end of the look as that then waited for a CPU.
 *   <li>What was found at once came at any time since the end of the last look, one as probably as the other;
 *   <li>unless the server has begun to wait for this connection's next request only since that look began. Whoever asks again so soon does
 *       so at once, so it came when the last answer was sent: the thread that sends it may then have waited for a CPU itself.
 * </ul>
 *
 * <p>Whether a look that took long slept, or waited for a CPU, the kernel says. To ask it takes some 10 µs, so it is asked of some looks, any
 * with the same probability, and of what these have found some is followed from there to the server's entry. Many looks, and few of each: what
 * was found at one look has waited about as long.
 */
final class Looks {
    /** Half a hundredth of a CPU's time. */
    private static final int LOOKS_PER_SECOND = 400;
    private static final int REQUESTS_PER_SECOND = 200;
    private static final int NR_FOLLOWED_MAX = 64;
    /** What has not come to the entry by then does not: a connection that was closed, or a request that is incomplete. */
    private static final long LOST_NANOS = 5_000_000_000L;
    /** Whoever looks and finds something at once is back sooner, but for what it waits for a CPU. */
    private static final long SLEPT_LEAST_NANOS = 100_000;

    private static final int BEGAN = 0;
    private static final int ENDED = 1;
    private static final int BEGAN_BEFORE = 2;
    private static final int ENDED_BEFORE = 3;
    /** 1 if what it finds is followed. */
    private static final int IS_FOLLOWED = 4;
    /** What the looking thread had waited for CPUs before, and then in this look; -1: the kernel does not say. */
    private static final int WAITED = 5;
    /** How often it was given a CPU before, and then in this look. */
    private static final int NR_SLICES = 6;
    private static final int NR_TIMES = 7;

    /** Who hears of a request that was followed. */
    interface Listener {
        /** @param slept whether the thread that found it slept, and how late it woke up is not known and not in it */
        void came(long beforeEntryNanos, boolean slept);
    }

    /** What somebody looks with. The server's own threads take turns with it, so its times have one writer. */
    private record Looker(WeakReference<Object> looksWith, long[] times) {}

    private record Followed(WeakReference<Object> connection, long cameNanos, boolean slept, long sinceNanos) {}

    private final LongSupplier clock;
    /** What the kernel has counted of this thread; null: it does not say. */
    private final Supplier<Schedstat> counted;
    /** A new array for each that comes; servers have some few for all their life. */
    private volatile Looker[] lookers = {};
    /** The times of what this thread goes through. A thread keeps that: no class of ours. */
    private final ThreadLocal<long[]> selecting = new ThreadLocal<>();
    private final ConnectionTimes answered = new ConnectionTimes();
    private final ConnectionTimes awaited = new ConnectionTimes();
    private final AtomicReferenceArray<Followed> followed = new AtomicReferenceArray<>(NR_FOLLOWED_MAX);
    private final OneIn ofLooks;
    private final OneIn ofRequests;

    Looks() {
        this(System::nanoTime, Looks::askKernel);
    }

    Looks(LongSupplier clock, Supplier<Schedstat> counted) {
        this.clock = clock;
        this.counted = counted;
        ofLooks = new OneIn(LOOKS_PER_SECOND, clock.getAsLong());
        ofRequests = new OneIn(REQUESTS_PER_SECOND, clock.getAsLong());
    }

    private static Schedstat askKernel() {
        return KernelThreads.current() == 0 ? null : Schedstat.ofLastTick();
    }

    private long[] timesOf(Object looker) {
        for (Looker each : lookers) {
            if (each.looksWith.refersTo(looker)) {
                return each.times;
            }
        }
        return added(looker);
    }

    private synchronized long[] added(Object looker) {
        Looker[] alive = Arrays.stream(lookers).filter(each -> !each.looksWith.refersTo(null)).toArray(Looker[]::new);
        Looker[] more = Arrays.copyOf(alive, alive.length + 1);
        more[alive.length] = new Looker(new WeakReference<>(looker), new long[NR_TIMES]);
        lookers = more;
        return more[alive.length].times;
    }

    /** A connection is sent an answer, or a part of one: from now on its next request may come. */
    void answers(Object connection) {
        answered.put(connection, clock.getAsLong());
    }

    /** There was nothing to be read from it: from now on looks find it. */
    void awaits(Object connection) {
        awaited.put(connection, clock.getAsLong());
    }

    /** A thread is about to look. */
    void begins(Object looker) {
        long[] times = timesOf(looker);
        long nowNanos = clock.getAsLong();
        times[BEGAN_BEFORE] = times[BEGAN];
        times[BEGAN] = nowNanos;
        boolean isFollowed = ofLooks.chooses(nowNanos);
        times[IS_FOLLOWED] = isFollowed ? 1 : 0;
        Schedstat now = isFollowed ? counted.get() : null;
        times[WAITED] = now == null ? -1 : now.waitedNanos();
        times[NR_SLICES] = now == null ? 0 : now.nrSlices();
    }

    /** It has looked. */
    void ended(Object looker) {
        long[] times = timesOf(looker);
        times[ENDED_BEFORE] = times[ENDED];
        times[ENDED] = clock.getAsLong();
        Schedstat now = times[WAITED] < 0 ? null : counted.get();
        times[NR_SLICES] = now == null ? -1 : now.nrSlices() - times[NR_SLICES];
        times[WAITED] = now == null ? -1 : now.waitedNanos() - times[WAITED];
    }

    /** Whoever never left its CPU has not; and whoever did may have waited for it. */
    private static boolean hasSlept(long[] times) {
        long asleepNanos = times[ENDED] - times[BEGAN] - Math.max(0, times[WAITED]);
        return times[ENDED_BEFORE] == 0 || times[NR_SLICES] != 0 && asleepNanos > SLEPT_LEAST_NANOS;
    }

    /** A thread goes through what was found; perhaps not the one that has looked. */
    void selects(Object looker) {
        selecting.set(timesOf(looker));
    }

    /** It is at this connection. */
    void selected(Object connection) {
        long[] times = selecting.get();
        if (times == null || times[ENDED] == 0) {
            return;
        }
        // What was not all there the first time has been waited for since: that was its client's doing.
        boolean wasFollowed = taken(connection) != null;
        if (wasFollowed || times[IS_FOLLOWED] == 0) {
            return;
        }
        long nowNanos = clock.getAsLong();
        if (ofRequests.chooses(nowNanos)) {
            boolean isLateUnknown = hasSlept(times) && times[WAITED] < 0;
            long cameNanos = cameNanos(times, answered.since(connection, nowNanos), awaited.since(connection, nowNanos));
            follow(new Followed(new WeakReference<>(connection), Math.min(cameNanos, times[ENDED]), isLateUnknown, nowNanos));
        }
    }

    private static long cameNanos(long[] times, long answeredNanos, long awaitedNanos) {
        if (hasSlept(times)) {
            return Math.max(times[ENDED] - Math.max(0, times[WAITED]), awaitedNanos);
        }
        if (awaitedNanos > times[BEGAN_BEFORE]) {
            return answeredNanos == ConnectionTimes.UNKNOWN ? awaitedNanos : Math.min(answeredNanos, awaitedNanos);
        }
        return times[ENDED_BEFORE] + (long) (ThreadLocalRandom.current().nextDouble() * (times[ENDED] - times[ENDED_BEFORE]));
    }

    private void follow(Followed next) {
        for (int at = 0; at < NR_FOLLOWED_MAX; at++) {
            Followed there = followed.get(at);
            boolean isFree = there == null || next.sinceNanos - there.sinceNanos > LOST_NANOS;
            if (isFree && followed.compareAndSet(at, there, next)) {
                return;
            }
        }
    }

    /** Whether any request is. */
    boolean isFollowing() {
        for (int at = 0; at < NR_FOLLOWED_MAX; at++) {
            if (followed.get(at) != null) {
                return true;
            }
        }
        return false;
    }

    /** No longer followed; null if it was not. */
    private Followed taken(Object connection) {
        for (int at = 0; at < NR_FOLLOWED_MAX; at++) {
            Followed there = followed.get(at);
            if (there != null && there.connection.refersTo(connection) && followed.compareAndSet(at, there, null)) {
                return there;
            }
        }
        return null;
    }

    /** A request that came by this connection is at the server's entry. */
    void entered(Object connection, Listener listener) {
        Followed there = connection == null ? null : taken(connection);
        if (there != null) {
            listener.came(clock.getAsLong() - there.cameNanos, there.slept);
        }
    }
}
