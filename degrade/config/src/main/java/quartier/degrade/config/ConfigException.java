package quartier.degrade.config;

import java.util.List;

/** Everything that is wrong with a file, each as FILE:LINE:COLUMN: what, and what to do. */
public final class ConfigException extends Exception {
    private final List<String> problems;

    ConfigException(List<String> problems) {
        super(String.join("\n", problems));
        this.problems = List.copyOf(problems);
    }

    public List<String> problems() {
        return problems;
    }
}
