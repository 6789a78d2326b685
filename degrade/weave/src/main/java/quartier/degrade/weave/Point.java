package quartier.degrade.weave;

import java.util.Locale;
import java.util.Set;

/** A yield point. The line is 0 where the class file does not say. */
public record Point(String className, String method, int line, Kind kind) {
    public enum Kind { ENTRY, LOOP }

    /** Whether one of these names it: as it is written, or without what is behind its line, or without the line. */
    public boolean isNamedIn(Set<String> names) {
        String ofMethod = className + "#" + method;
        return names.contains(ofMethod) || names.contains(ofMethod + ":" + line) || names.contains(toString());
    }

    @Override
    public String toString() {
        return className + "#" + method + ":" + line + " " + kind.name().toLowerCase(Locale.ROOT);
    }
}
