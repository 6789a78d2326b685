package quartier.degrade.servers;

import java.util.List;
import quartier.degrade.core.Request;
import quartier.degrade.weave.EntryWeaver.Entry;

/**
 * A server that the agent knows. Its classes are known by name only: the server may not be there, be of another
 * version, or be there twice in two class loaders.
 */
public interface Server {
    /** Every server that is known. */
    List<Server> ALL = List.of(new JdkServer(), new Tomcat(), new Jetty());

    static Server named(String name) {
        for (Server server : ALL) {
            if (server.name().equals(name)) {
                return server;
            }
        }
        throw new IllegalStateException("no server " + name);
    }

    String name();

    List<Entry> entries();

    Request request(Object request);

    /** The same object for the same request, wherever and however wrapped it is met; null if there is none any more. */
    default Object identity(Object request) {
        return request;
    }

    /** Has {@code complete} called once the request is complete, by any thread. False if the server cannot do that. */
    default boolean whenComplete(Object request, Runnable complete) {
        return false;
    }

    /** Whether it goes on later although the server's method has returned. */
    default boolean isAway(Object request) {
        return false;
    }

    /** The connection that a request has come by, as the server's own threads select it; null if that is not known. */
    default Object connection(Object request) {
        return null;
    }

    /** The name of the class behind something that handles requests; null if it is not known. */
    default String handler(Object handler) {
        return null;
    }

    /** Answers the request instead of the server. A negative number of seconds is not said. */
    void reject(Object request, Object response, Object callback, int code, int retryAfterSeconds);
}
