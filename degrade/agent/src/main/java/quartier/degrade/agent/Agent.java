package quartier.degrade.agent;

import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.Instrumentation;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.jar.JarFile;

/**
 * Where the JVM comes in: as it starts, or when the agent is put into it. Nothing here names the gate's classes,
 * which are not there before this has run.
 */
public final class Agent {
    static final String DETACH = "detach";
    private static final String GATE_JAR = "/quartier-degrade-gate.jar";
    private static boolean gateIsThere;

    private Agent() {}

    /** Whatever is wrong, the server starts: without us, and that is said. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        try {
            start(arguments, instrumentation);
        } catch (Exception | LinkageError thrown) {
            Say.say("not active: " + thrown.getMessage());
        }
    }

    /** Whoever puts the agent in hears what is wrong. */
    public static void agentmain(String arguments, Instrumentation instrumentation) throws Exception {
        if (arguments != null && arguments.startsWith(Asked.PREFIX)) {
            hear(new Asked(arguments), instrumentation);
            return;
        }
        try {
            if (DETACH.equals(arguments)) {
                stop();
            } else {
                start(arguments, instrumentation);
            }
        } catch (Exception | LinkageError thrown) {
            Say.say((DETACH.equals(arguments) ? "not taken out: " : "not active: ") + thrown.getMessage());
            throw thrown;
        }
    }

    private static void hear(Asked asked, Instrumentation instrumentation) {
        switch (asked.command) {
            case "attach" -> asked.answer(() -> {
                showGate(instrumentation);
                return Installation.start(asked.rest.isEmpty() ? null : Path.of(asked.rest), instrumentation);
            });
            case DETACH -> asked.answer(() -> {
                stop();
                return "taken out";
            });
            case "points" -> asked.answer(() -> active().points().report());
            case "points-json" -> asked.answer(() -> Json.of(active().points().list()));
            case "mode" -> asked.answer(() -> active().setMode(asked.rest));
            case "why", "why-traced" -> asked.answerLater(() -> {
                showGate(instrumentation);
                return Why.answer(asked.rest, asked.command.equals("why-traced"), instrumentation);
            });
            default -> asked.answer(() -> {
                throw new IllegalArgumentException("this agent does not know \"" + asked.command
                        + "\": it is of another version than the command; restart the JVM");
            });
        }
    }

    private static Installation active() {
        Installation active = gateIsThere ? Installation.active() : null;
        if (active == null) {
            throw new IllegalStateException("no agent is active in this JVM: put it in with `quartier degrade attach`");
        }
        return active;
    }

    private static void start(String arguments, Instrumentation instrumentation) throws Exception {
        if (arguments == null || arguments.isBlank()) {
            throw new IllegalArgumentException(
                    "no configuration was named: use -javaagent:quartier-degrade.jar=FILE");
        }
        showGate(instrumentation);
        Installation.start(Path.of(arguments), instrumentation);
    }

    private static synchronized void showGate(Instrumentation instrumentation) throws IOException, URISyntaxException {
        if (!gateIsThere) {
            instrumentation.appendToBootstrapClassLoaderSearch(new JarFile(unpackGate().toFile()));
            gateIsThere = true;
            // Whoever loads it once more names the same file.
            Path jar = Path.of(Agent.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            System.setProperty(Asked.JAR, jar.toString());
        }
    }

    private static synchronized void stop() {
        if (!gateIsThere) {
            throw new IllegalStateException("no agent is active in this JVM: there is nothing to take out");
        }
        Installation.stop();
    }

    private static Path unpackGate() throws IOException {
        Path file = Files.createTempFile("quartier-degrade-gate", ".jar");
        file.toFile().deleteOnExit();
        try (InputStream jar = Agent.class.getResourceAsStream(GATE_JAR)) {
            if (jar == null) {
                throw new IOException("the agent's jar is incomplete: " + GATE_JAR + " is not in it; build it anew");
            }
            Files.copy(jar, file, StandardCopyOption.REPLACE_EXISTING);
        }
        return file;
    }
}
