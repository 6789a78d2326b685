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
    List<Server> ALL = List.of(new JdkServer(), new Tomcat());

    String name();

    Entry entry();

    Request request(Object request);

    /** Answers the request instead of the server. A negative number of seconds is not said. */
    void reject(Object request, Object response, int code, int retryAfterSeconds);
}
