package quartier.degrade.servers;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import quartier.degrade.weave.EntryWeaver.Entry;

/** The methods that matter of all servers, and of what applications are built with, by class. */
public final class Entries {
    private static final Map<String, List<Entry>> BY_OWNER = byOwner();

    private Entries() {}

    private static Map<String, List<Entry>> byOwner() {
        List<Entry> all = new ArrayList<>(Spring.ENTRIES);
        Server.ALL.forEach(server -> all.addAll(server.entries()));
        Map<String, List<Entry>> byOwner = new HashMap<>();
        all.forEach(entry -> byOwner.computeIfAbsent(entry.owner(), owner -> new ArrayList<>()).add(entry));
        return byOwner;
    }

    /** The name of the class behind something that handles requests, as whoever has it handled calls it. */
    public static String handler(String server, Object handler) {
        return server.equals(Spring.NAME) ? Spring.handler(handler) : Server.named(server).handler(handler);
    }

    /** Whether this class, by its name, hands requests on to another one that will be announced as well. */
    public static boolean handsOn(String handler) {
        return Spring.SERVLET.equals(handler);
    }

    /** Those of this class, by its internal name. */
    public static List<Entry> of(String internalName) {
        return BY_OWNER.getOrDefault(internalName, List.of());
    }
}
