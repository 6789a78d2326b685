package quartier.degrade.gate;

/** What a server's thread does before a request is at its entry, where it does not serve at once what it has found. */
public enum ConnectionStep {
    /** It is about to send this connection an answer, or a part of one: from now on its next request may come. */
    ANSWERS,
    /** There was nothing to be read from this connection: from now on looks find it. */
    AWAITS,
    /** It is about to look, with this, which connections have something to be read. */
    LOOKS,
    /** It has looked with this. */
    LOOKED,
    /** It goes on through what the last look with this has found; perhaps another thread has looked. */
    SELECTS,
    /** It has come to this connection. */
    SELECTED
}
