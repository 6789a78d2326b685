package quartier.degrade.agent;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * When something happened last on each connection. Every request comes by here, so nothing is allocated and nobody waits: there is room
 * for so many connections, and of two in one place the one that came last is known.
 */
final class ConnectionTimes {
    private static final int NR_PLACES = 1024;
    /** Times are kept in units of 1024 ns, modulo 2^33 of them (more than two hours), beside the 31 bits of an identity. */
    private static final int UNIT_BITS = 10;
    private static final int TIME_BITS = 33;
    private static final long TIME_MASK = (1L << TIME_BITS) - 1;
    /** What is not known was long ago. */
    static final long UNKNOWN = Long.MIN_VALUE;

    private final AtomicLongArray places = new AtomicLongArray(NR_PLACES);

    void put(Object connection, long nowNanos) {
        long identity = System.identityHashCode(connection);
        places.setPlain(place(identity), identity << TIME_BITS | nowNanos >> UNIT_BITS & TIME_MASK);
    }

    private static int place(long identity) {
        return (int) identity & NR_PLACES - 1;
    }

    /** {@link #UNKNOWN} if nobody said so of this one. */
    long since(Object connection, long nowNanos) {
        long identity = System.identityHashCode(connection);
        long there = places.getPlain(place(identity));
        if (there == 0 || there >>> TIME_BITS != identity) {
            return UNKNOWN;
        }
        long agoUnits = (nowNanos >> UNIT_BITS) - there & TIME_MASK;
        return nowNanos - (agoUnits << UNIT_BITS);
    }
}
