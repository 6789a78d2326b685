package quartier.degrade.gate;

/** A thread's place. Only its own thread touches it. */
final class Seat {
    /** No lambda: it may first be asked for where the JDK is not ready to make one. */
    private static final ThreadLocal<Seat> SEATS = new ThreadLocal<>() {
        @Override
        protected Seat initialValue() {
            return new Seat();
        }
    };

    /** Monitors and locks that woven code has taken, and class initialisers that it is in. */
    int nrHeld;
    /** Entries of servers that this thread is in, one in the other. */
    int depth;
    /** Tasks of somebody's that this thread is in, likewise. */
    int taskDepth;
    /** The task that the occupant is, as a depth; 0 if it is a request. */
    int partDepth;
    /** Points passed the long way and in vain, since the flag was last lowered for that. */
    int nrPasses;
    /** The look that it has begun to count for, since when, and how many points since. */
    long look;
    long lookNanos;
    int nrLookPasses;
    /** With what this thread looks for connections at the moment. */
    Object looker;
    Hook hook;
    Occupant occupant;

    static Seat own() {
        return SEATS.get();
    }

    void take(Hook owner, Occupant newOccupant) {
        nrHeld = 0;
        hook = owner;
        occupant = newOccupant;
    }

    /** Whoever sat here gets up: nothing of it is left, whatever its hook does. */
    void vacate() {
        Hook owner = hook;
        Occupant left = occupant;
        hook = null;
        occupant = null;
        partDepth = 0;
        if (left == null) {
            return;
        }
        try {
            owner.end(left);
        } catch (Exception | LinkageError fault) {
            owner.fault(fault);
        }
    }
}
