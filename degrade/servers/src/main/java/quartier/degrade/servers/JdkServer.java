package quartier.degrade.servers;

import static quartier.degrade.servers.Calls.call;
import static quartier.degrade.servers.Calls.text;

import java.util.List;
import quartier.degrade.core.Request;
import quartier.degrade.weave.EntryWeaver.Entry;
import quartier.degrade.weave.EntryWeaver.Kind;

/** The JDK's own {@code com.sun.net.httpserver}. Filters call the chain again; only the first call is an entry. */
final class JdkServer implements Server {
    @Override
    public String name() {
        return "jdk";
    }

    @Override
    public List<Entry> entries() {
        return List.of(new Entry(
                Kind.SERVE,
                name(),
                "com/sun/net/httpserver/Filter$Chain",
                "doFilter",
                "(Lcom/sun/net/httpserver/HttpExchange;)V"));
    }

    @Override
    public Request request(Object exchange) {
        return new Request() {
            @Override
            public String method() {
                return text(exchange, "getRequestMethod");
            }

            @Override
            public String path() {
                return text(call(exchange, "getRequestURI"), "getPath");
            }

            @Override
            public String header(String name) {
                return text(call(exchange, "getRequestHeaders"), "getFirst", name);
            }

            @Override
            public String handler() {
                Object handler = call(call(exchange, "getHttpContext"), "getHandler");
                return handler == null ? null : handler.getClass().getName();
            }
        };
    }

    @Override
    public void reject(Object exchange, Object same, Object none, int code, int retryAfterSeconds) {
        if (retryAfterSeconds >= 0) {
            call(call(exchange, "getResponseHeaders"), "set", "Retry-After", Integer.toString(retryAfterSeconds));
        }
        call(exchange, "sendResponseHeaders", code, -1L);
        call(exchange, "close");
    }
}
