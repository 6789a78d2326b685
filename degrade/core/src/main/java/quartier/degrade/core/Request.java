package quartier.degrade.core;

/** What rules may ask of a request. What a server does not know is null, and fits no rule that asks for it. */
public interface Request {
    String method();

    /** Decoded or as it came, without the query. */
    String path();

    String header(String name);

    /** The name of the class that will handle it. */
    String handler();

    /** Whether it is that, and not one that hands it on to the one. */
    default boolean isHandlerKnown() {
        return handler() != null;
    }

    /** The same, now that this is known to handle it. */
    default Request handledBy(String handler) {
        Request known = this;
        return new Request() {
            @Override
            public String method() {
                return known.method();
            }

            @Override
            public String path() {
                return known.path();
            }

            @Override
            public String header(String name) {
                return known.header(name);
            }

            @Override
            public String handler() {
                return handler;
            }
        };
    }
}
