package quartier.degrade.gate;

import java.util.Collection;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Counts yield points now and then for a while, so that it can be chosen among them. Each thread counts for itself: no
 * thread waits for another's cache line.
 */
public final class Tally {
    private static volatile boolean active;
    private static volatile boolean counting;
    private static final Queue<Counts> ALL = new ConcurrentLinkedQueue<>();
    private static final ThreadLocal<Counts> OWN = ThreadLocal.withInitial(Counts::new);

    /** So many that what is measured is compiled, and some of them are not disturbed. */
    private static final int COST_ROUNDS = 100;
    private static final int CALLS_DEEP = 13;

    private Tally() {}

    /** Of one thread. Written by it alone; whoever reads may see a count late. */
    public static final class Counts {
        private static final long[] NONE = {};

        public final Thread thread = Thread.currentThread();
        private volatile long[] nr = NONE;
        private volatile long request;
        private long nrRequests;
        private boolean listed;

        /** Grows as points are woven. */
        private void add(int id) {
            long[] now = nr;
            if (id >= now.length) {
                now = java.util.Arrays.copyOf(now, Math.max(id + 1, 2 * now.length));
                nr = now;
            }
            now[id]++;
        }

        public long[] copy() {
            return nr.clone();
        }

        /** Which request the thread serves: another number for each, and 0 for none. */
        public long request() {
            return request;
        }
    }

    /** Point {@code id} is passed. */
    public static void pass(int id) {
        if (counting) {
            OWN.get().add(id);
        }
    }

    /** A request begins on this thread. */
    public static void begin() {
        if (active) {
            Counts own = OWN.get();
            if (!own.listed) {
                own.listed = true;
                ALL.add(own);
            }
            own.request = ++own.nrRequests;
        }
    }

    /** It has ended. */
    public static void end() {
        if (active) {
            OWN.get().request = 0;
        }
    }

    /** For the agent only. */
    public static void start() {
        active = true;
    }

    /** For the agent only: whether points are counted, after the start. Code that is counted is much slower. */
    public static void count(boolean now) {
        counting = now;
    }

    /** For the agent only: how long it takes to count a point, where code is nothing but calls. */
    public static double costNanos() {
        long plain = Long.MAX_VALUE;
        long counted = Long.MAX_VALUE;
        int nr = 1;
        for (int round = 0; round < COST_ROUNDS; round++) {
            counting = false;
            long began = System.nanoTime();
            nr = calls(CALLS_DEEP);
            plain = Math.min(plain, System.nanoTime() - began);
            counting = true;
            began = System.nanoTime();
            calls(CALLS_DEEP);
            counted = Math.min(counted, System.nanoTime() - began);
        }
        counting = false;
        return Math.max(0.0, counted - plain) / nr;
    }

    /** Returns how many there were. */
    private static int calls(int depth) {
        pass(0);
        return depth == 0 ? 1 : 1 + calls(depth - 1) + calls(depth - 1);
    }

    /** For the agent only. Nothing is kept. */
    public static void stop() {
        active = false;
        counting = false;
        for (Counts counts : ALL) {
            counts.nr = Counts.NONE;
            counts.request = 0;
            counts.listed = false;
        }
        ALL.clear();
    }

    /** Threads that have served requests since the start; one that has ended is forgotten. */
    public static Collection<Counts> all() {
        ALL.removeIf(counts -> !counts.thread.isAlive());
        return List.copyOf(ALL);
    }
}
