package quartier.degrade.gate;

/** Where woven code's calls go. */
public interface Hook {
    /** What {@link #begin} returns for a request that is sent away. */
    Occupant REJECTED = () -> false;

    /**
     * A request begins on this thread, or goes on there after it was away. Returns what occupies the thread, null for
     * nothing, or {@link #REJECTED}.
     *
     * @param callback what else the server's method was given; null if nothing
     */
    Occupant begin(String server, Object request, Object response, Object callback);

    /** A request that was away goes on on this thread, somewhere below the server's entry. Returns what occupies it, or null. */
    Occupant resume(String server, Object request);

    /** An occupant that is asked is at a yield point. */
    void point(Occupant occupant, boolean mayYield);

    /** Its thread has left it. The request may be incomplete, and go on on another thread. */
    void end(Occupant occupant);

    /** A request is complete, whether it was away or not. */
    void finish(String server, Object request);

    /** It has become known which part of the application handles it. */
    void handler(Occupant occupant, String server, Object handler);

    /** A thread of the server's does this with a connection, or with what it looks for connections with. */
    void connection(ConnectionStep step, Object of);

    /** It has handed this task to somebody who will run it. */
    void handOver(Occupant occupant, Object task);

    /** Whose task this is, once; null for nobody's. */
    Object taken(Object task);

    /** A task begins on this thread: a part of that request. Returns what occupies it, or null. */
    Occupant beginPart(Object whole);

    /** One of these has thrown. The program does not see it. */
    void fault(Throwable thrown);
}
