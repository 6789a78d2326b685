package quartier.degrade.core;

/** What rules may ask of a request. What a server does not know is null, and fits no rule that asks for it. */
public interface Request {
    String method();

    /** Decoded or as it came, without the query. */
    String path();

    String header(String name);

    /** The name of the class that will handle it. */
    String handler();
}
