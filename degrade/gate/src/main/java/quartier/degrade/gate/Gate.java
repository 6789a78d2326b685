package quartier.degrade.gate;

/**
 * What woven code calls. It is on the boot class path, so that any class of any loader sees it, and it knows
 * nothing: everything else is behind {@link Hook}.
 *
 * <p>Nothing that goes wrong behind the hook reaches the program: it is told to the hook, and the program runs on.
 */
public final class Gate {
    /**
     * Whether any thread is asked. Volatile, or the compiler would read it once before a loop; on x86-64 that is a
     * plain load.
     */
    private static volatile boolean asked;

    private static volatile Hook hook;
    private static final ThreadLocal<Seat> SEATS = ThreadLocal.withInitial(Seat::new);

    private Gate() {}

    /** A thread's place. Only its own thread touches it. */
    static final class Seat {
        int nrHeld;
        int depth;
        Hook hook;
        Object job;
    }

    /** A yield point. */
    public static void point() {
        if (asked) {
            slow();
        }
    }

    private static void slow() {
        Seat seat = SEATS.get();
        Hook owner = seat.hook;
        if (owner == null || seat.job == null) {
            return;
        }
        try {
            owner.point(seat.job, seat.nrHeld == 0);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** A monitor or lock is about to be taken, or a class initialiser begins. */
    public static void hold() {
        SEATS.get().nrHeld++;
    }

    /** It is about to be given back, or has ended. */
    public static void release() {
        Seat seat = SEATS.get();
        // Code that was woven between the two has given back what nobody counted.
        if (seat.nrHeld > 0) {
            seat.nrHeld--;
        }
    }

    /** A lock that may have been taken. */
    public static boolean held(boolean taken) {
        if (taken) {
            hold();
        }
        return taken;
    }

    /** A stamped lock that may have been taken: a stamp of zero is none. */
    public static long held(long stamp) {
        held(stamp != 0);
        return stamp;
    }

    /**
     * A request begins on this thread.
     *
     * @return false if it is sent away: the server's method returns at once, and there is no {@link #end}
     */
    public static boolean begin(String server, Object request, Object response) {
        Seat seat = SEATS.get();
        Hook owner = hook;
        if (seat.depth > 0 || owner == null) {
            seat.depth++;
            return true;
        }
        try {
            seat.nrHeld = 0;
            Object job = owner.begin(server, request, response);
            if (job == Hook.REJECTED) {
                return false;
            }
            seat.hook = owner;
            seat.job = job;
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
        seat.depth = 1;
        return true;
    }

    /** It has ended, or failed. */
    public static void end() {
        Seat seat = SEATS.get();
        if (seat.depth == 0 || --seat.depth > 0) {
            return;
        }
        Hook owner = seat.hook;
        Object job = seat.job;
        seat.hook = null;
        seat.job = null;
        if (job == null) {
            return;
        }
        try {
            owner.end(job);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** For the agent only: raises or lowers the flag. */
    public static void ask(boolean anyAsked) {
        if (asked != anyAsked) {
            asked = anyAsked;
        }
    }

    /** For the agent only: where everything goes from now on; null for nowhere. */
    public static void connect(Hook newHook) {
        hook = newHook;
        if (newHook == null) {
            asked = false;
        }
    }

    public static boolean isConnected() {
        return hook != null;
    }
}
