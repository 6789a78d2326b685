package quartier.degrade.weave;

/** A yield point. The line is 0 where the class file does not say. */
public record Point(String className, String method, int line, Kind kind) {
    public enum Kind { ENTRY, LOOP }

    @Override
    public String toString() {
        return className + "#" + method + ":" + line + " " + kind.name().toLowerCase(java.util.Locale.ROOT);
    }
}
