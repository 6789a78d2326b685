package quartier.degrade.gate;

/** Where woven code's calls go. */
public interface Hook {
    /** What {@link #begin} returns for a request that is sent away. */
    Object REJECTED = new Object();

    /** A request begins on this thread. Returns its job, null for none, or {@link #REJECTED}. */
    Object begin(String server, Object request, Object response);

    /** The job's thread is at a yield point, and some job is asked. */
    void point(Object job, boolean mayYield);

    void end(Object job);

    /** One of these has thrown. The program does not see it. */
    void fault(Throwable thrown);
}
