package quartier.degrade.core;

/**
 * What a request waits for CPUs before the server's entry. The agent sees nothing of it: first the thread that looks after connections
 * has to wake up, then the one that serves. How late the first one is, is guessed: as late as the controller, which sleeps as much. The
 * second one has used its CPU time, so the kernel may let it wait far longer; some of these count how long. Where there may be more than
 * two of them, one after the other, some requests are followed all the way. Under the dispatcher's lock.
 */
final class WakeUps {
    /** So that two in a row are no neighbours in time; it has no factor in common with those kept. */
    private static final int STRIDE = 27;
    /** Whoever is later did not wait for a CPU: all have stood still, or the clock has jumped. */
    private static final long LATE_MAX_NANOS = Dispatcher.PULSE_MAX_NANOS;
    /** Of fewer, one that is an exception would be taken for the rule. */
    private static final int NR_WAITED_LEAST = 8;

    private final Recent late = new Recent();
    private final Recent waited = new Recent();
    private final Recent followed = new Recent();

    /** The latest of some measured durations. */
    private static final class Recent {
        private static final int KEPT = 256;
        /** What is longer ago was of another time. */
        private static final long RECENT_NANOS = 1_000_000_000;

        private final long[] nanos = new long[KEPT];
        private final long[] addedNanos = new long[KEPT];
        private int oldest;
        private int nr;
        private int at;
        private long least;

        void add(long newNanos, long nowNanos) {
            while (nr == KEPT || nr > 0 && nowNanos - addedNanos[oldest] > RECENT_NANOS) {
                oldest = (oldest + 1) % KEPT;
                nr--;
            }
            int newest = (oldest + nr++) % KEPT;
            nanos[newest] = newNanos;
            addedNanos[newest] = nowNanos;
            least = Long.MAX_VALUE;
            for (int number = 0; number < nr; number++) {
                least = Math.min(least, kept(number));
            }
        }

        boolean isKnown(int nrLeast, long nowNanos) {
            return nr >= nrLeast && nowNanos - addedNanos[(oldest + nr - 1) % KEPT] <= RECENT_NANOS;
        }

        private long kept(int number) {
            return nanos[(oldest + number) % KEPT];
        }

        /** One of them, another one each time. */
        long next() {
            at = (at + STRIDE) % KEPT;
            return kept(at % nr);
        }

        long least() {
            return least;
        }

        long mean() {
            long sum = 0;
            for (int number = 0; number < nr; number++) {
                sum += kept(number);
            }
            return sum / nr;
        }
    }

    /** How late the controller was. */
    void addLate(long nanos, long nowNanos) {
        if (nanos >= 0 && nanos <= LATE_MAX_NANOS) {
            late.add(nanos, nowNanos);
        }
    }

    /** How long a thread waited for CPUs between two requests. */
    void addWaited(long nanos, long nowNanos) {
        if (nanos >= 0) {
            waited.add(nanos, nowNanos);
        }
    }

    /**
     * How long a request that was followed came before the server's entry.
     *
     * @param slept whether somebody had to wake up first, which is not in it
     */
    void addFollowed(long nanos, boolean slept, long nowNanos) {
        followed.add(nanos + (slept ? lateNanos(nowNanos) : 0), nowNanos);
    }

    private boolean isFollowed(long nowNanos) {
        return followed.isKnown(NR_WAITED_LEAST, nowNanos);
    }

    /** As long as one request may have waited: of late, so many threads, each as long as some did. */
    long beforeEntryNanos(long nowNanos) {
        if (isFollowed(nowNanos)) {
            return followed.next();
        }
        return lateNanos(nowNanos) + (isCounted(nowNanos) ? waited.next() : lateNanos(nowNanos));
    }

    private boolean isCounted(long nowNanos) {
        return waited.isKnown(NR_WAITED_LEAST, nowNanos);
    }

    /** Timers are a little late in any case. */
    private long lateNanos(long nowNanos) {
        return late.isKnown(1, nowNanos) ? late.next() - late.least() : 0;
    }

    /** How long a request waits so on average. */
    long meanBeforeEntryNanos(long nowNanos) {
        if (isFollowed(nowNanos)) {
            return followed.mean();
        }
        long ofFirst = late.isKnown(1, nowNanos) ? late.mean() - late.least() : 0;
        return ofFirst + (isCounted(nowNanos) ? waited.mean() : ofFirst);
    }
}
