package quartier.degrade.gate;

import java.util.Collection;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Counts yield points for a while, so that it can be chosen among them. Each thread counts for itself: no thread
 * waits for another's cache line.
 */
public final class Tally {
    private static volatile boolean counting;
    private static final Queue<Counts> ALL = new ConcurrentLinkedQueue<>();
    private static final ThreadLocal<Counts> OWN = ThreadLocal.withInitial(Counts::new);

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
        if (counting) {
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
        if (counting) {
            OWN.get().request = 0;
        }
    }

    /** For the agent only. */
    public static void start() {
        counting = true;
    }

    /** For the agent only. Nothing is kept. */
    public static void stop() {
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
