package quartier.degrade.gate;

/**
 * A look at which points are passed very often now, long after they were chosen: while one is taken, the first thread that
 * passes many in short time says where it is. It costs each thread some ten microseconds, and is over by itself.
 */
public final class Look {
    /** So many points in a row, the long way: fewer than after which a thread lowers the flag. */
    private static final int PASSES = 500;
    /**
     * In so short a time. A point that is passed once in 0.1 µs costs its code a hundredth of its time; the long way takes some
     * nanoseconds more each time.
     */
    private static final long HOT_NANOS = PASSES * 100L;

    private static final StackWalker STACK = StackWalker.getInstance();

    /** Which look is being taken; 0 for none. No two have one number, so a thread knows when it begins to count anew. */
    private static volatile long current;
    private static long nrTaken;
    private static volatile Place found;

    /** Where points are passed very often. Where the class file says no line there it is negative. */
    public record Place(String className, String method, int line) {}

    private Look() {}

    /** For the agent only. */
    public static synchronized void take() {
        found = null;
        current = ++nrTaken;
        Gate.raise();
    }

    /** For the agent only: what has been found since; null for nothing. The look is over. */
    public static Place end() {
        current = 0;
        return found;
    }

    /** A thread that serves a request passes a point the long way. */
    static void pass(Seat seat) {
        long number = current;
        if (number == 0) {
            return;
        }
        if (seat.look != number) {
            seat.look = number;
            seat.lookNanos = System.nanoTime();
            seat.nrLookPasses = 0;
        } else if (++seat.nrLookPasses == PASSES) {
            long elapsedNanos = System.nanoTime() - seat.lookNanos;
            if (elapsedNanos <= HOT_NANOS) {
                found = caller();
                current = 0;
            }
        }
    }

    private static Place caller() {
        return STACK.walk(frames -> frames
                .dropWhile(frame -> frame.getClassName().startsWith("quartier.degrade.gate."))
                .findFirst()
                .map(frame -> new Place(frame.getClassName(), frame.getMethodName(), frame.getLineNumber()))
                .orElse(null));
    }
}
