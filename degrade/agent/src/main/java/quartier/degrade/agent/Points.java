package quartier.degrade.agent;

import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import quartier.degrade.weave.Point;
import quartier.degrade.weave.PointChoice;

/** The yield points that have been met, by number, and why each is there or not. */
final class Points {
    /** Who says which there are. */
    enum By { RULE, FILE, PROFILE, PROFILE_UNDER_WAY }

    private final Map<Point, Integer> numbers = new LinkedHashMap<>();
    private volatile By by;
    private volatile PointChoice choice;

    Points(By by) {
        this.by = by;
    }

    /** The same for the same class of another loader, or woven once more. */
    synchronized int number(Point point) {
        return numbers.computeIfAbsent(point, fresh -> numbers.size());
    }

    /** From now on these are to be there. */
    void choose(PointChoice made) {
        choice = made;
        by = By.PROFILE;
    }

    /** A profile came to nothing: points are what they were without it. Returns what there is to say. */
    String giveUp(String why) {
        boolean isFirst = choice == null;
        if (isFirst) {
            by = By.RULE;
        }
        return "yield points could not be chosen by a profile" + (isFirst ? "" : " once more") + ", because " + why + ": "
                + (isFirst
                        ? "they are those of the rule"
                        : "those that were chosen before stay, and code that had not been seen then keeps all of its own")
                + "; detach and attach again while requests run, or name points in [weave]";
    }

    synchronized boolean isChosen(Point point) {
        Integer number = numbers.get(point);
        return choice == null || number == null || choice.isChosen(number);
    }

    PointChoice choice() {
        return choice;
    }

    /** Whether the points at this place were there to be seen by the profile, and were not. No line: a method's entry. */
    synchronized boolean isUnseen(String className, String method, int line) {
        List<Integer> there = numbers.entrySet().stream()
                .filter(each -> each.getKey().className().equals(className) && each.getKey().method().equals(method))
                .filter(each -> each.getKey().line() == line || line < 0 && each.getKey().kind() == Point.Kind.ENTRY)
                .map(Map.Entry::getValue)
                .toList();
        return choice != null && !there.isEmpty() && there.stream().noneMatch(choice::isSeen);
    }

    By by() {
        return by;
    }

    /** A text that is also what a configuration file has below {@code [weave]}. */
    synchronized String report() {
        List<Map.Entry<Point, Integer>> all = oftenestFirst();
        StringBuilder text = new StringBuilder(head()).append("points = [\n");
        for (Map.Entry<Point, Integer> each : all) {
            if (choice == null || choice.isChosen(each.getValue())) {
                text.append("    \"").append(each.getKey()).append("\",").append(why(each.getValue())).append('\n');
            }
        }
        text.append("]\n");
        if (choice != null) {
            text.append("# Left out: passed more often than every 0.2 ms of CPU time, and not needed beside those above and the"
                    + " ends of requests.\n");
            for (Map.Entry<Point, Integer> each : all) {
                if (!choice.isChosen(each.getValue())) {
                    text.append("#   \"").append(each.getKey()).append("\",").append(why(each.getValue())).append('\n');
                }
            }
        }
        return text.toString();
    }

    /** The same for programs: all points, those that are left out too. What nobody has counted is null. */
    synchronized Map<String, Object> list() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("pid", ProcessHandle.current().pid());
        map.put("by", Modes.word(by));
        map.put("profile", choice == null ? null : profile());
        map.put("points", oftenestFirst().stream().map(each -> described(each.getKey(), each.getValue())).toList());
        return map;
    }

    private Map<String, Object> profile() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("windows", choice.nrWindows());
        map.put("passing_part", choice.passingPart());
        map.put("covered_part", choice.coveredPart());
        map.put("chosen_per_ms", choice.chosenPerMilli());
        map.put("all_per_ms", choice.allPerMilli());
        return map;
    }

    private Map<String, Object> described(Point point, int number) {
        boolean counted = choice != null && choice.isCounted(number);
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("point", point.toString());
        map.put("class", point.className());
        map.put("method", point.method());
        map.put("line", point.line() == 0 ? null : point.line());
        map.put("kind", Modes.word(point.kind()));
        map.put("chosen", choice == null || choice.isChosen(number));
        map.put("needed", counted ? choice.isNeeded(number) : null);
        map.put("dear", counted ? choice.isDear(number) : null);
        map.put("per_s", counted ? choice.perSecond(number) : null);
        return map;
    }

    private List<Map.Entry<Point, Integer>> oftenestFirst() {
        return numbers.entrySet().stream()
                .sorted(Comparator.comparingDouble((Map.Entry<Point, Integer> each) -> -perSecond(each.getValue()))
                        .thenComparing(each -> each.getKey().toString()))
                .toList();
    }

    private double perSecond(int number) {
        return choice == null || !choice.isCounted(number) ? 0 : choice.perSecond(number);
    }

    private String head() {
        String fix = "# To fix these points by hand, put the list below into [weave], with profile_s = 0.\n";
        return switch (by) {
            case RULE -> "# Yield points by rule: entries of methods that call or loop, and loops that call or have loops in them.\n"
                    + fix;
            case FILE -> "# Yield points that the configuration names.\n";
            case PROFILE_UNDER_WAY -> "# Points are being counted: look again later.\n";
            case PROFILE -> String.format(Locale.ROOT,
                    "# Yield points chosen by a profile: %d windows of about a millisecond of CPU time, of which %.1f %% pass one"
                            + " of these,%n# and %.1f %% do or come to one or to their request's end within about %d ms.%n"
                            + "# Passed in a millisecond: %.1f of these, %.1f of all.%n%s%s",
                    choice.nrWindows(), 100 * choice.passingPart(), 100 * choice.coveredPart(), PointChoice.WITHOUT_MAX_NANOS / 1_000_000,
                    choice.chosenPerMilli(), choice.allPerMilli(),
                    choice.coveredPart() < 0.95
                            ? "# The other windows pass no point at all: weave more (include), or try leaf_loops = true.\n"
                            : "",
                    fix);
        };
    }

    private String why(int number) {
        if (choice == null) {
            return "";
        }
        if (!choice.isCounted(number)) {
            return "  # not seen";
        }
        String often = String.format(Locale.ROOT, "%.0f in a second of CPU time", choice.perSecond(number));
        String needed = choice.isNeeded(number) ? choice.isDear(number) ? "needed, though it costs: " : "needed: " : "";
        return "  # " + needed + often;
    }
}
