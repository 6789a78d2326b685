package quartier.degrade.agent;

import java.util.Map;
import java.util.OptionalLong;

/** Maps, lists, numbers and texts as JSON. Only written, never read: a library for it would be larger than the agent. */
final class Json {
    private final StringBuilder text = new StringBuilder();

    private Json() {}

    static String of(Object value) {
        Json json = new Json();
        json.add(value);
        return json.text.toString();
    }

    private void add(Object value) {
        if (value == null) {
            text.append("null");
        } else if (value instanceof Map<?, ?> map) {
            text.append('{');
            map.forEach((key, each) -> {
                separate('{');
                quote(key.toString());
                text.append(':');
                add(each);
            });
            text.append('}');
        } else if (value instanceof Iterable<?> list) {
            text.append('[');
            list.forEach(each -> {
                separate('[');
                add(each);
            });
            text.append(']');
        } else if (value instanceof Double number) {
            add(number);
        } else if (value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else {
            quote(value.toString());
        }
    }

    private void separate(char opening) {
        char last = text.charAt(text.length() - 1);
        if (last != opening) {
            text.append(',');
        }
    }

    /** Three digits are enough for whoever reads them, and what is no number is not known. */
    private void add(Double number) {
        if (!Double.isFinite(number)) {
            text.append("null");
            return;
        }
        double rounded = Math.round(number * 1000) / 1000.0;
        text.append(rounded == Math.rint(rounded) ? String.valueOf((long) rounded) : String.valueOf(rounded));
    }

    private void quote(String words) {
        text.append('"');
        for (char c : words.toCharArray()) {
            switch (c) {
                case '"', '\\' -> text.append('\\').append(c);
                case '\n' -> text.append("\\n");
                default -> {
                    if (c < ' ') {
                        text.append(String.format("\\u%04x", (int) c));
                    } else {
                        text.append(c);
                    }
                }
            }
        }
        text.append('"');
    }

    /** Milliseconds, or nothing. */
    static Double millis(OptionalLong nanos) {
        return nanos.isPresent() ? millis(nanos.getAsLong()) : null;
    }

    static Double millis(long nanos) {
        return nanos / 1e6;
    }
}
