package quartier.degrade.config;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import org.tomlj.TomlArray;
import org.tomlj.TomlPosition;
import org.tomlj.TomlTable;

/** A table of the file: reads values by key, and remembers which keys it was asked for and what was wrong. */
final class Section {
    private static final double MILLIS_LEAST = 0.001;
    private static final double MILLIS_MOST = 3_600_000;
    /** What TOML takes for a part of the table above it, wherever in the file somebody adds it. */
    static final Set<String> KEYS_OF_FILE =
            Set.of("policy", "mode", "permits", "slice_ms", "max_wait_ms", "metrics_port", "unmatched_after_s");

    private final TomlTable table;
    /** Where it begins; null for the file. */
    private final TomlPosition begin;
    private final String fileName;
    private final List<String> problems;
    private final Set<String> known = new TreeSet<>();

    /** Of the whole file. */
    Section(TomlTable table, String fileName, List<String> problems) {
        this(table, null, fileName, problems);
    }

    private Section(TomlTable table, TomlPosition begin, String fileName, List<String> problems) {
        this.table = table;
        this.begin = begin;
        this.fileName = fileName;
        this.problems = problems;
    }

    boolean has(String key) {
        known.add(key);
        return table.contains(List.of(key));
    }

    /** What is not there is missing where its table begins. */
    void problem(String key, String what) {
        TomlPosition position = table.inputPositionOf(List.of(key));
        problem(position == null ? begin : position, what);
    }

    private void problem(TomlPosition position, String what) {
        String where = position == null ? "1:1" : position.line() + ":" + position.column();
        problems.add(fileName + ":" + where + ": " + what);
    }

    /** A value of this type; absent if it is not there, or is of another type, which is a problem. */
    private <T> Optional<T> value(String key, Class<T> type, String wanted) {
        known.add(key);
        Object value = table.get(List.of(key));
        if (value == null) {
            return Optional.empty();
        }
        if (!type.isInstance(value)) {
            problem(key, key + " is not " + wanted);
            return Optional.empty();
        }
        return Optional.of(type.cast(value));
    }

    Optional<String> text(String key) {
        return value(key, String.class, "a text in quotes");
    }

    boolean truth(String key, boolean otherwise) {
        return value(key, Boolean.class, "true or false").orElse(otherwise);
    }

    /** One of these words. */
    <T> T word(String key, Map<String, T> words, T otherwise) {
        Optional<String> word = text(key);
        if (word.isPresent() && !words.containsKey(word.get())) {
            problem(key, key + " \"" + word.get() + "\" is none of " + listed(words.keySet()));
        }
        return word.map(words::get).orElse(otherwise);
    }

    Optional<Double> number(String key, double least, double most) {
        return value(key, Number.class, "a number").map(Number::doubleValue).filter(number -> isWithin(key, key, number, least, most));
    }

    /** @param what is a number of this key */
    private boolean isWithin(String key, String what, double number, double least, double most) {
        boolean within = number >= least && number <= most;
        if (!within) {
            problem(key, what + " is " + plain(number) + ", and may be " + plain(least) + " to " + plain(most));
        }
        return within;
    }

    Optional<Integer> whole(String key, int least, int most) {
        Optional<Double> number = number(key, least, most);
        if (number.isPresent() && number.get() % 1 != 0) {
            problem(key, key + " is not a whole number");
            return Optional.empty();
        }
        return number.map(Double::intValue);
    }

    Optional<Long> millisAsNanos(String key) {
        return number(key, MILLIS_LEAST, MILLIS_MOST).map(Section::nanos);
    }

    /** Of a number that is somewhere in the value of this key. */
    long millisAsNanos(String key, String what, double millis) {
        isWithin(key, what, millis, MILLIS_LEAST, MILLIS_MOST);
        return nanos(millis);
    }

    private static long nanos(double millis) {
        return Math.round(millis * 1e6);
    }

    /** A list of texts, each made into something; also a single text. */
    <T> List<T> texts(String key, Function<String, T> make) {
        known.add(key);
        if (table.get(List.of(key)) instanceof String single) {
            return List.of(make.apply(single));
        }
        List<T> made = new ArrayList<>();
        Optional<TomlArray> array = value(key, TomlArray.class, "a list of texts");
        for (int at = 0; array.isPresent() && at < array.get().size(); at++) {
            if (array.get().get(at) instanceof String text) {
                made.add(make.apply(text));
            } else {
                problem(array.get().inputPositionOf(at), "in " + key + " there is something that is not a text");
            }
        }
        return made;
    }

    /** A list of pairs of numbers. */
    List<double[]> pairs(String key) {
        List<double[]> pairs = new ArrayList<>();
        Optional<TomlArray> array = value(key, TomlArray.class, "a list of pairs, like [[0, 50], [40, 100]]");
        for (int at = 0; array.isPresent() && at < array.get().size(); at++) {
            if (array.get().get(at) instanceof TomlArray pair
                    && pair.size() == 2
                    && pair.get(0) instanceof Number first
                    && pair.get(1) instanceof Number second) {
                pairs.add(new double[] {first.doubleValue(), second.doubleValue()});
            } else {
                problem(array.get().inputPositionOf(at), "in " + key + " there is something that is not a pair of numbers");
            }
        }
        return pairs;
    }

    /** Names and patterns. */
    <T> Map<String, T> named(String key, Function<String, T> make) {
        Map<String, T> named = new TreeMap<>();
        value(key, TomlTable.class, "a table of names and texts").ifPresent(names -> {
            for (String name : names.keySet()) {
                if (names.get(List.of(name)) instanceof String text) {
                    named.put(name, make.apply(text));
                } else {
                    problem(names.inputPositionOf(List.of(name)), key + "." + name + " is not a text");
                }
            }
        });
        return named;
    }

    Optional<Section> section(String key) {
        return value(key, TomlTable.class, "a table")
                .map(found -> new Section(found, table.inputPositionOf(List.of(key)), fileName, problems));
    }

    List<Section> sections(String key) {
        List<Section> sections = new ArrayList<>();
        Optional<TomlArray> array = value(key, TomlArray.class, "a list of tables: write [[" + key + "]]");
        for (int at = 0; array.isPresent() && at < array.get().size(); at++) {
            if (array.get().get(at) instanceof TomlTable found) {
                sections.add(new Section(found, array.get().inputPositionOf(at), fileName, problems));
            } else {
                problem(array.get().inputPositionOf(at), key + " is not a list of tables: write [[" + key + "]]");
            }
        }
        return sections;
    }

    /** To be called when everything was asked for: what is there besides is a mistake. */
    void refuseOthers() {
        Set<String> others = new HashSet<>(table.keySet());
        others.removeAll(known);
        for (String key : new TreeSet<>(others)) {
            problem(key, begin != null && KEYS_OF_FILE.contains(key)
                    ? key + " is of the whole file, and here of the table above it: put it above the first table"
                    : "there is no \"" + key + "\" here; there are " + listed(known));
        }
    }

    private static String listed(Set<String> words) {
        return String.join(", ", new TreeSet<>(words));
    }

    static String plain(double number) {
        return number % 1 == 0 && Math.abs(number) < 1e15 ? String.valueOf((long) number) : String.valueOf(number);
    }
}
