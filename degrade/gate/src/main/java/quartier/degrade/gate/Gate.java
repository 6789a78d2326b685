package quartier.degrade.gate;

import java.util.List;

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

    /**
     * While anybody is asked, everybody's points take the long way, and code that is nothing but calls passes a hundred
     * million of them in a second. So whoever has passed this many in vain lowers the flag, until it is raised again:
     * some ten microseconds of the long way in each millisecond.
     */
    private static final int PASSES_LEAST = 2_000;
    /** A question is put for longer the longer nobody answers: somebody else's points may be rarer. */
    private static final int PASSES_MOST = 8 * PASSES_LEAST;
    private static volatile int nrPassesMost = PASSES_LEAST;

    private static final int NR_PRIMING = 200_000;
    private static final int PRIMING_ASKED = 100;

    private static volatile Hook hook;

    private Gate() {}

    /** A yield point. */
    public static void point() {
        if (asked) {
            slow();
        }
    }

    private static void slow() {
        Seat seat = Seat.own();
        Occupant occupant = seat.occupant;
        if (occupant != null && occupant.isAsked()) {
            answer(seat);
            return;
        }
        if (occupant != null) {
            Look.pass(seat);
        }
        if (++seat.nrPasses >= nrPassesMost) {
            seat.nrPasses = 0;
            asked = false;
        }
    }

    private static void answer(Seat seat) {
        Hook owner = seat.hook;
        try {
            owner.point(seat.occupant, seat.nrHeld == 0);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** A monitor or lock is about to be taken, or a class initialiser begins. */
    public static void hold() {
        Seat.own().nrHeld++;
    }

    /** It is about to be given back, or has ended. */
    public static void release() {
        Seat seat = Seat.own();
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
     * A request begins on this thread, or goes on there.
     *
     * @return false if it is sent away: the server's method returns at once, and there is no {@link #end}
     */
    public static boolean begin(String server, Object request, Object response, Object callback) {
        Seat seat = Seat.own();
        Hook owner = hook;
        if (seat.depth > 0 || owner == null) {
            seat.depth++;
            return true;
        }
        // A server that serves on tasks of an earlier request: this one is no part of that.
        seat.vacate();
        try {
            Occupant occupant = owner.begin(server, request, response, callback);
            if (occupant == Hook.REJECTED) {
                return false;
            }
            seat.take(owner, occupant);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
        seat.depth = 1;
        return true;
    }

    /** A request that was away goes on on this thread, below the server's entry. {@link #end} ends this too. */
    public static void resume(String server, Object request) {
        Seat seat = Seat.own();
        Hook owner = hook;
        if (seat.depth++ > 0 || owner == null) {
            return;
        }
        seat.vacate();
        try {
            seat.take(owner, owner.resume(server, request));
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** The server's method has returned, or failed. */
    public static void end() {
        Seat seat = Seat.own();
        if (seat.depth > 0 && --seat.depth == 0) {
            seat.vacate();
        }
    }

    /** A request is complete. Servers say so of every request. */
    public static void finish(String server, Object request) {
        Hook owner = hook;
        if (owner == null) {
            return;
        }
        try {
            owner.finish(server, request);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** It has become known who handles this thread's request. */
    public static void handler(String server, Object handler) {
        Seat seat = Seat.own();
        Hook owner = seat.hook;
        if (owner == null || seat.occupant == null) {
            return;
        }
        try {
            owner.handler(seat.occupant, server, handler);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** A thread of the server's does this with a connection, or with what it looks for connections with. */
    public static void connection(ConnectionStep step, Object of) {
        Hook owner = hook;
        if (owner == null) {
            return;
        }
        if (step == ConnectionStep.LOOKS) {
            Seat.own().looker = of;
        }
        try {
            owner.connection(step, of);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** What this thread began by {@link ConnectionStep#LOOKS} has ended, or failed. */
    public static void looked() {
        Seat seat = Seat.own();
        Object looker = seat.looker;
        seat.looker = null;
        if (looker != null) {
            connection(ConnectionStep.LOOKED, looker);
        }
    }

    /** Whoever runs on this thread gives this task to somebody else. */
    public static void handOver(Object task) {
        if (hook == null || task == null) {
            return;
        }
        Seat seat = Seat.own();
        Hook owner = seat.hook;
        if (owner == null || seat.occupant == null) {
            return;
        }
        try {
            owner.handOver(seat.occupant, task);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** What is to be run instead of a task that is run now: itself, or itself as a part of a request. */
    public static Runnable task(Object key, Runnable task) {
        Hook owner = hook;
        Object whole = owner == null ? null : taken(owner, key);
        return whole == null ? task : new Part(owner, whole, task);
    }

    private static Object taken(Hook owner, Object task) {
        try {
            Object whole = owner.taken(task);
            return whole == null || isSystems(Thread.currentThread()) ? null : whole;
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
            return null;
        }
    }

    /**
     * Whether a thread is the JDK's own: one that carries virtual threads, or ends waits that have a limit. Requests hand
     * work to these too without knowing, and everybody waits if they do.
     */
    private static boolean isSystems(Thread thread) {
        String type = thread.getClass().getName();
        return type.startsWith("jdk.internal.")
                || type.equals("java.util.concurrent.DelayScheduler")
                || thread.getName().equals("CompletableFutureDelayScheduler");
    }

    /** A task begins that says itself when it ends. */
    public static void beginTask(Object task) {
        Seat seat = Seat.own();
        Hook owner = hook;
        seat.taskDepth++;
        if (owner == null || seat.occupant != null || seat.depth > 0) {
            return;
        }
        Object whole = taken(owner, task);
        if (whole != null) {
            sit(seat, owner, whole);
        }
    }

    public static void endTask() {
        Seat seat = Seat.own();
        if (seat.taskDepth == 0) {
            return;
        }
        if (seat.partDepth == seat.taskDepth) {
            seat.vacate();
        }
        seat.taskDepth--;
    }

    /** A task of a request begins. Whoever runs something already goes on with that. */
    static void beginPart(Hook owner, Object whole) {
        Seat seat = Seat.own();
        seat.taskDepth++;
        if (seat.occupant == null && seat.depth == 0) {
            sit(seat, owner, whole);
        }
    }

    private static void sit(Seat seat, Hook owner, Object whole) {
        try {
            Occupant occupant = owner.beginPart(whole);
            if (occupant != null) {
                seat.take(owner, occupant);
                seat.partDepth = seat.taskDepth;
            }
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }

    /** For the agent only: raises or lowers the flag. To be called again about every millisecond while any is asked. */
    public static void ask(boolean anyAsked) {
        if (!anyAsked) {
            nrPassesMost = PASSES_LEAST;
        } else if (!asked) {
            nrPassesMost = Math.min(2 * nrPassesMost, PASSES_MOST);
        }
        if (asked != anyAsked) {
            asked = anyAsked;
        }
    }

    /** For {@link Look}: for as long as it takes until somebody has passed enough, or the agent lowers it. */
    static void raise() {
        asked = true;
    }

    /** For the agent only: where everything goes from now on; null for nowhere. */
    public static void connect(Hook newHook) {
        if (newHook != null) {
            prime();
            nrPassesMost = PASSES_LEAST;
        }
        hook = newHook;
        if (newHook == null) {
            asked = false;
        }
    }

    /**
     * Lets the compiler see both ways of a point, the long one seldom. It leaves out what it has never seen, in each method
     * anew, and then the first question would throw away what was compiled of all of them; and it copies what is short and
     * often taken into each of them.
     */
    private static void prime() {
        for (int at = 0; at < NR_PRIMING; at++) {
            asked = at % PRIMING_ASKED == 0;
            point();
        }
        asked = false;
    }

    /**
     * For the agent only, before anything is woven: nothing of this package is to be loaded later. The JVM calls agents whenever it loads a
     * class, and those of others may be woven. Their code would ask for the very class that is being loaded, and that fails for good.
     *
     * @return what is loaded by being named
     */
    public static List<Class<?>> load() {
        Seat.own();
        Tally.end();
        Look.end();
        return List.of(Hook.class, ConnectionStep.class, Occupant.class, Part.class, Tally.Counts.class, Look.Place.class);
    }

    public static boolean isConnected() {
        return hook != null;
    }
}
