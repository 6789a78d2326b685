package quartier.degrade.servers;

import static quartier.degrade.servers.Calls.call;

import java.util.List;
import quartier.degrade.weave.EntryWeaver.Entry;
import quartier.degrade.weave.EntryWeaver.Kind;

/**
 * Spring MVC on any server: to the server, one servlet handles everything. Which controller it is is known when
 * Spring has found it, and is the handler that rules ask for as well. Its servlet API may be javax or jakarta.
 */
final class Spring {
    static final String NAME = "spring";
    /** What servers take for the handler of everything. */
    static final String SERVLET = "org.springframework.web.servlet.DispatcherServlet";
    static final List<Entry> ENTRIES = List.of(new Entry(
            Kind.DELEGATE,
            NAME,
            "org/springframework/web/servlet/mvc/method/annotation/RequestMappingHandlerAdapter",
            "handleInternal",
            null));

    private Spring() {}

    /** The name of the controller's class, of a {@code HandlerMethod}; what proxies add to it is left out. */
    static String handler(Object handlerMethod) {
        String name = ((Class<?>) call(handlerMethod, "getBeanType")).getName();
        int proxy = name.indexOf("$$");
        return proxy < 0 ? name : name.substring(0, proxy);
    }
}
