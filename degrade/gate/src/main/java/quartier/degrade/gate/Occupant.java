package quartier.degrade.gate;

/** What a thread is at: a request, or a part of one. Whose it is knows more. */
public interface Occupant {
    /** Whether it is to come to {@link Hook#point} at its next yield point. Read at every point while any is asked. */
    boolean isAsked();
}
