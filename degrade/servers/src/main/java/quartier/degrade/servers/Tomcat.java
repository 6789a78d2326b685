package quartier.degrade.servers;

import static quartier.degrade.servers.Calls.call;
import static quartier.degrade.servers.Calls.text;

import quartier.degrade.core.Request;
import quartier.degrade.weave.EntryWeaver.Entry;

/**
 * Tomcat, alone or inside Spring Boot. The engine's valve is where a request is mapped and nothing of the
 * application has run; its parameters are Catalina's own, so it is the same for javax and jakarta.
 */
final class Tomcat implements Server {
    @Override
    public String name() {
        return "tomcat";
    }

    @Override
    public Entry entry() {
        return new Entry(
                name(),
                "org/apache/catalina/core/StandardEngineValve",
                "invoke",
                "(Lorg/apache/catalina/connector/Request;Lorg/apache/catalina/connector/Response;)V");
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
        };
    }

    @Override
    public void reject(Object request, Object response, int code, int retryAfterSeconds) {
        if (retryAfterSeconds >= 0) {
            call(response, "setHeader", "Retry-After", Integer.toString(retryAfterSeconds));
        }
        // Whoever called the valve finishes the response.
        call(response, "setStatus", code);
    }
}
