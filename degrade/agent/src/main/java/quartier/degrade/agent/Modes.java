package quartier.degrade.agent;

import java.util.Locale;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.Settings.Mode;

/** The switch: what is done with what the configuration says, as whoever operates the server calls it. */
final class Modes {
    private Modes() {}

    static String word(Enum<?> mode) {
        return mode.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** Until the file is read again. */
    static void set(Dispatcher dispatcher, String wanted, String by) {
        for (Mode mode : Mode.values()) {
            if (word(mode).equals(wanted)) {
                dispatcher.configure(dispatcher.settings().withMode(mode));
                Say.say("mode " + wanted + ", as somebody said by " + by);
                return;
            }
        }
        throw new IllegalArgumentException("there is no mode \"" + wanted + "\"; there are on, dry-run and off");
    }
}
