package quartier.degrade.core;

import java.util.List;
import java.util.Map;

/** Which requests belong to a class: all that is given must fit. Absent parts (null or empty) fit everything. */
public record Rule(List<Glob> paths, List<String> methods, Map<String, Glob> headers, List<Glob> handlers) {
    public static final Rule ANY = new Rule(List.of(), List.of(), Map.of(), List.of());

    public Rule {
        paths = List.copyOf(paths);
        methods = List.copyOf(methods);
        headers = Map.copyOf(headers);
        handlers = List.copyOf(handlers);
    }

    public boolean fits(Request request) {
        return (methods.isEmpty() || methods.contains(request.method()))
                && fitsOne(paths, request::path)
                && fitsOne(handlers, request::handler)
                && headers.entrySet().stream()
                        .allMatch(wanted -> wanted.getValue().fits(request.header(wanted.getKey())));
    }

    Rule withoutHandlers() {
        return new Rule(paths, methods, headers, List.of());
    }

    private static boolean fitsOne(List<Glob> globs, java.util.function.Supplier<String> asked) {
        if (globs.isEmpty()) {
            return true;
        }
        String text = asked.get();
        for (Glob glob : globs) {
            if (glob.fits(text)) {
                return true;
            }
        }
        return false;
    }
}
