package quartier.degrade.servers;

import static quartier.degrade.servers.Calls.call;
import static quartier.degrade.servers.Calls.text;

import java.util.List;
import quartier.degrade.core.Request;
import quartier.degrade.weave.EntryWeaver.Entry;
import quartier.degrade.weave.EntryWeaver.Kind;

/**
 * Tomcat, alone or inside Spring Boot. The engine's valve is where a request is mapped and nothing of the
 * application has run; its parameters are Catalina's own, so it is the same for javax and jakarta. A request that was
 * suspended comes through it again, as the same object, which is recycled once it is complete.
 */
final class Tomcat implements Server {
    @Override
    public String name() {
        return "tomcat";
    }

    @Override
    public List<Entry> entries() {
        String request = "org/apache/catalina/connector/Request";
        return List.of(
                new Entry(
                        Kind.SERVE,
                        name(),
                        "org/apache/catalina/core/StandardEngineValve",
                        "invoke",
                        "(L" + request + ";Lorg/apache/catalina/connector/Response;)V"),
                new Entry(Kind.FINISH, name(), request, "recycle", "()V"));
    }

    @Override
    public boolean isAway(Object request) {
        return (Boolean) call(request, "isAsync");
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
                return text(request, "getDecodedRequestURI");
            }

            @Override
            public String header(String name) {
                return text(request, "getHeader", name);
            }

            @Override
            public String handler() {
                return text(call(request, "getWrapper"), "getServletClass");
            }

            @Override
            public boolean isHandlerKnown() {
                String handler = handler();
                return handler != null && !Entries.handsOn(handler);
            }
        };
    }

    @Override
    public void reject(Object request, Object response, Object none, int code, int retryAfterSeconds) {
        if (retryAfterSeconds >= 0) {
            call(response, "setHeader", "Retry-After", Integer.toString(retryAfterSeconds));
        }
        // Whoever called the valve finishes the response.
        call(response, "setStatus", code);
    }
}
