package quartier.degrade.gate;

/** Where woven code's calls go. */
public interface Hook {
    /** What {@link #begin} returns for a request that is sent away. */
    Object REJECTED = new Object();

    /**
     * A request begins on this thread, or goes on there after it was away. Returns its job, null for none, or
     * {@link #REJECTED}.
     *
     * @param callback what else the server's method was given; null if nothing
     */
    Object begin(String server, Object request, Object response, Object callback);

    /** A request that was away goes on on this thread, somewhere below the server's entry. Returns its job, or null. */
    Object resume(String server, Object request);

    /** The job's thread is at a yield point, and some job is asked. */
    void point(Object job, boolean mayYield);

    /** The job's thread has left it. The request may be incomplete, and go on on another thread. */
    void end(Object job);

    /** A request is complete, whether it was away or not. */
    void finish(String server, Object request);

    /** It has become known which part of the application handles the job. */
    void handler(Object job, String server, Object handler);

    /** The job has handed this task to somebody who will run it. */
    void handOver(Object job, Object task);

    /** Whose task this is, once; null for nobody's. */
    Object taken(Object task);

    /** A task begins on this thread: a part of that request. Returns its job, or null for none. */
    Object beginPart(Object whole);

    /** One of these has thrown. The program does not see it. */
    void fault(Throwable thrown);
}
