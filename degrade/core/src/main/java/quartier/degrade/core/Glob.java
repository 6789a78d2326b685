package quartier.degrade.core;

import java.util.regex.Pattern;

/** A pattern: {@code **} fits anything, {@code *} anything without a separator, the rest itself. */
public final class Glob {
    private final String text;
    private final Pattern pattern;

    private Glob(String text, char separator) {
        this.text = text;
        StringBuilder regex = new StringBuilder();
        for (int at = 0; at < text.length(); at++) {
            if (text.startsWith("**", at)) {
                regex.append(".*");
                at++;
            } else if (text.charAt(at) == '*') {
                regex.append("[^").append(Pattern.quote(String.valueOf(separator))).append("]*");
            } else {
                regex.append(Pattern.quote(String.valueOf(text.charAt(at))));
            }
        }
        this.pattern = Pattern.compile(regex.toString(), Pattern.DOTALL);
    }

    /** For paths of URLs. */
    public static Glob path(String text) {
        return new Glob(text, '/');
    }

    /** For names of classes. */
    public static Glob className(String text) {
        return new Glob(text, '.');
    }

    /** What is not there fits nothing, not even {@code **}. */
    public boolean fits(String candidate) {
        return candidate != null && pattern.matcher(candidate).matches();
    }

    @Override
    public String toString() {
        return text;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Glob glob && glob.pattern.pattern().equals(pattern.pattern());
    }

    @Override
    public int hashCode() {
        return pattern.pattern().hashCode();
    }
}
