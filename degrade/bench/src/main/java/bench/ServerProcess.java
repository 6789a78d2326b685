package bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

/** A server in a JVM of its own, with or without the agent. What it and the agent say goes to our standard error. */
final class ServerProcess implements AutoCloseable {
    /** Another JDK than ours: -Dbench.java.home=FOLDER. */
    private static final String JAVA =
            Path.of(System.getProperty("bench.java.home", System.getProperty("java.home")), "bin", "java").toString();
    /** What runs it, to have it scheduled otherwise: -Dbench.under=WORDS. */
    private static final List<String> UNDER =
            Pattern.compile(" ").splitAsStream(System.getProperty("bench.under", "")).filter(word -> !word.isEmpty()).toList();

    private static final long CLOCK_TICKS_PER_SECOND = 100;

    private final Process process;
    private final Path config;
    private final int port;

    /**
     * @param settings what the agent's file says; null for a server without it
     * @param jvm options of the JVM's own
     */
    ServerProcess(String main, String settings, List<String> jvm, String... arguments) throws IOException {
        config = Files.createTempFile("degrade", ".toml");
        List<String> command = new ArrayList<>(UNDER);
        command.add(JAVA);
        if (settings != null) {
            Files.writeString(config, settings);
            command.add("-javaagent:" + System.getProperty("agent.jar") + "=" + config);
        }
        command.addAll(jvm);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main));
        command.addAll(List.of(arguments));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        // Whoever stops the experiment stops its servers.
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        port = readPort(process.inputReader());
    }

    private static int readPort(BufferedReader said) throws IOException {
        for (String line = said.readLine(); line != null; line = said.readLine()) {
            if (line.startsWith("port ")) {
                return Integer.parseInt(line.substring("port ".length()));
            }
        }
        throw new IOException("the server ended before it had a port");
    }

    int port() {
        return port;
    }

    private String pid() {
        return Long.toString(process.pid());
    }

    /** Another file for the agent, which reads it within a second. */
    void configure(String settings) throws IOException {
        Files.writeString(config, settings);
    }

    /**
     * Has so many clients of each service ask for a while, and counts nothing: what is compiled is compiled before anything
     * counts. The compiler's threads get a CPU seldom among many others, and the agent chooses its points by what it sees
     * first: so few clients come first.
     */
    void warm(int nrLight, int nrHeavy, double seconds) throws InterruptedException {
        new Clients(port, 0, seconds).closed(nrLight, "/light").closed(nrHeavy, "/heavy").run(() -> {});
    }

    /** Of all its threads, since it began. */
    double cpuSeconds() {
        try {
            String stat = Files.readString(Path.of("/proc", pid(), "stat"));
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return (double) (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / CLOCK_TICKS_PER_SECOND;
        } catch (IOException gone) {
            throw new UncheckedIOException(gone);
        }
    }

    @Override
    public void close() throws IOException, InterruptedException {
        process.destroy();
        if (!process.waitFor(10, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
        }
        Files.delete(config);
    }
}
