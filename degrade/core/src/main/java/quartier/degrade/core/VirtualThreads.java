package quartier.degrade.core;

/** What is different about virtual threads, on JDKs that have them. */
public final class VirtualThreads {
    /** Up to here, whoever holds a monitor takes its carrier along when it parks, and monitors are not all counted. */
    private static final int LAST_WITH_PINNING = 23;
    private static final boolean PIN = Runtime.version().feature() <= LAST_WITH_PINNING;
    /** A carrier that is taken along is missed by every other virtual thread: not for longer than some slices. */
    static final long PINNED_MAX_NANOS = 10_000_000;

    private VirtualThreads() {}

    /** {@code Thread.isVirtual} is newer than the JDK that this is compiled for. */
    public static boolean isVirtual(Thread thread) {
        return thread.getClass().getName().equals("java.lang.VirtualThread");
    }

    /** How long this thread may wait at once. */
    static long waitMaxNanos(Thread thread) {
        return PIN && isVirtual(thread) ? PINNED_MAX_NANOS : Long.MAX_VALUE;
    }
}
