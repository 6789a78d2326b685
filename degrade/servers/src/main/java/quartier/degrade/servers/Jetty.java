package quartier.degrade.servers;

import static quartier.degrade.servers.Calls.call;
import static quartier.degrade.servers.Calls.callStatic;
import static quartier.degrade.servers.Calls.knows;
import static quartier.degrade.servers.Calls.text;

import java.util.List;
import java.util.function.Consumer;
import quartier.degrade.core.Request;
import quartier.degrade.weave.EntryWeaver.Entry;
import quartier.degrade.weave.EntryWeaver.Kind;

/**
 * Jetty 12: its core, and the servlet environments on it (8: javax; 9 to 11: jakarta). Every request goes through the
 * server's handler and is complete when its callback is, which may be later; servlets that were suspended go on in
 * their channel, on another thread. A thread that has looked for connections serves the first one itself, and has another thread go on
 * with those that it has found: so one may wait for many threads to get a CPU, one after the other, before it comes through the handler.
 */
final class Jetty implements Server {
    private static final String PACKAGE = "org/eclipse/jetty/";
    private static final String SERVER = PACKAGE + "server/";
    private static final String END_POINT = PACKAGE + "io/SelectableChannelEndPoint";
    private static final String SELECTOR = PACKAGE + "io/ManagedSelector$SelectorProducer";

    @Override
    public String name() {
        return "jetty";
    }

    @Override
    public List<Entry> entries() {
        String serve = "(L" + SERVER + "Request;L" + SERVER + "Response;L" + PACKAGE + "util/Callback;)Z";
        return List.of(
                new Entry(Kind.SERVE, name(), SERVER + "Server", "handle", serve),
                servlets(Kind.RESUME, "ee8/nested/HttpChannel"),
                servlets(Kind.RESUME, "ee9/nested/HttpChannel"),
                servlets(Kind.RESUME, "ee10/servlet/ServletChannel"),
                servlets(Kind.RESUME, "ee11/servlet/ServletChannel"),
                servlets(Kind.HANDLE, "ee8/servlet/ServletHolder"),
                servlets(Kind.HANDLE, "ee9/servlet/ServletHolder"),
                servlets(Kind.HANDLE, "ee10/servlet/ServletHolder"),
                servlets(Kind.HANDLE, "ee11/servlet/ServletHolder"),
                new Entry(Kind.LOOK, name(), SELECTOR, "select", "()Z"),
                new Entry(Kind.SELECT, name(), SELECTOR, "processSelected", "()Ljava/lang/Runnable;"),
                new Entry(Kind.AWAIT, name(), END_POINT, "needsFillInterest", "()V"),
                new Entry(Kind.SELECTED, name(), END_POINT, "onSelected", "()Ljava/lang/Runnable;"),
                new Entry(Kind.ANSWER, name(), PACKAGE + "io/SocketChannelEndPoint", "flush", "([Ljava/nio/ByteBuffer;)Z"));
    }

    private Entry servlets(Kind kind, String owner) {
        return new Entry(kind, name(), PACKAGE + owner, "handle", null);
    }

    @Override
    public String handler(Object servletHolder) {
        return text(servletHolder, "getClassName");
    }

    /** Of a request, or of a channel: what is not wrapped any more. */
    @Override
    public Object identity(Object of) {
        Object request = of;
        if (knows(of, "getCoreRequest")) {
            request = call(of, "getCoreRequest");
        } else if (knows(of, "getServletContextRequest")) {
            request = call(of, "getServletContextRequest");
        }
        while (request != null && knows(request, "getWrapped")) {
            request = call(request, "getWrapped");
        }
        return request;
    }

    /** Below encryption there is another one, and that is selected. */
    @Override
    public Object connection(Object request) {
        Object endPoint = asked(asked(asked(request, "getConnectionMetaData"), "getConnection"), "getEndPoint");
        for (Object below = endPoint; below != null; below = asked(below, "unwrap")) {
            endPoint = below;
        }
        return endPoint;
    }

    /** What it says, or null. */
    private static Object asked(Object of, String name) {
        return of == null || !knows(of, name) ? null : call(of, name);
    }

    @Override
    public boolean whenComplete(Object request, Runnable complete) {
        Consumer<Throwable> listener = thrown -> complete.run();
        return callStatic(request, "org.eclipse.jetty.server.Request", "addCompletionListener", request, listener);
    }

    @Override
    public Request request(Object request) {
        return new Request() {
            @Override
            public String method() {
                return text(request, "getMethod");
            }

            @Override
            public String path() {
                return text(call(request, "getHttpURI"), "getDecodedPath");
            }

            @Override
            public String header(String name) {
                return text(call(request, "getHeaders"), "get", name);
            }

            @Override
            public String handler() {
                // Found out on the way, and said then.
                return null;
            }
        };
    }

    @Override
    public void reject(Object request, Object response, Object callback, int code, int retryAfterSeconds) {
        if (retryAfterSeconds >= 0) {
            call(call(response, "getHeaders"), "put", "Retry-After", Integer.toString(retryAfterSeconds));
        }
        call(response, "setStatus", code);
        call(callback, "succeeded");
    }
}
