package quartier.degrade.agent;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * A question of {@code quartier degrade}: {@code ask QUESTION COMMAND ...}. The answer is a system property, which a JVM
 * tells to whoever may attach to it: no file, no port, and a container is no border.
 */
final class Asked {
    static final String PREFIX = "ask ";
    static final String JAR = "quartier.degrade.jar";
    private static final String ANSWER = "quartier.degrade.answer.";
    /** Whoever has asked looks at once; older answers only fill the table. */
    private static final int KEPT = 8;
    private static final Deque<String> ANSWERED = new ArrayDeque<>();

    /** What there is to do. What it returns is said; what it throws, too, as a refusal. */
    interface Command {
        String run() throws Exception;
    }

    private final String property;
    final String command;
    /** What follows the command; empty for nothing. */
    final String rest;

    Asked(String arguments) {
        String[] words = arguments.split(" ", 4);
        if (words.length < 3) {
            throw new IllegalArgumentException("\"" + arguments + "\" is no question");
        }
        property = ANSWER + words[1];
        command = words[2];
        rest = words.length > 3 ? words[3] : "";
    }

    void answer(Command does) {
        try {
            put("ok " + does.run());
        } catch (Exception | LinkageError thrown) {
            String why = thrown.getMessage() == null ? thrown.toString() : thrown.getMessage();
            Say.say("refused to " + command + ": " + why);
            put("refused " + why);
        }
    }

    /** On a thread of its own, for what takes long: the JVM listens to one at a time. */
    void answerLater(Command does) {
        new OwnThread(() -> answer(does), command).start();
    }

    private void put(String text) {
        synchronized (ANSWERED) {
            System.setProperty(property, text);
            ANSWERED.addLast(property);
            if (ANSWERED.size() > KEPT) {
                System.clearProperty(ANSWERED.removeFirst());
            }
        }
    }
}
