package trial;

import com.sun.tools.attach.AgentInitializationException;
import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** An unmodified server in a JVM of its own, with or without the agent. */
final class ServerProcess implements AutoCloseable {
    static final Path JAR = Path.of(System.getProperty("agent.jar")).normalize();
    private static final String JAVA =
            Path.of(System.getProperty("trial.java.home", System.getProperty("java.home")), "bin", "java").toString();
    private static final Pattern METRICS = Pattern.compile("metrics at .*:(\\d+)/metrics");
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(60);

    private final Process process;
    private final List<Thread> collectors = new ArrayList<>();
    private final StringBuffer output = new StringBuffer();
    private final StringBuffer errors = new StringBuffer();
    private int metricsPort;
    final Path config;
    final int port;

    /** @param config what the agent's file says; null for a server without an agent */
    ServerProcess(Class<?> main, String config, String... arguments) throws Exception {
        this(Application.of(main, arguments), config);
    }

    ServerProcess(Application application, String config) throws Exception {
        this.config = Files.createTempFile("degrade", ".toml");
        // What a server leaves behind goes with everything else that was built.
        Path temporary = Files.createDirectories(Path.of("target", "tmp").toAbsolutePath());
        if (config != null) {
            Files.writeString(this.config, config);
        }
        List<String> command = application.command(temporary, config == null ? null : JAR, this.config);
        process = new ProcessBuilder(command).start();
        // Whoever stops the tests stops their servers.
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        collectors.add(collect(process.getInputStream(), output));
        collectors.add(collect(process.getErrorStream(), errors));
        port = Integer.parseInt(await(output, Pattern.compile("port (\\d+)")).group(1));
        if (config != null && config.contains("metrics_port")) {
            metricsPort = Integer.parseInt(await(errors, METRICS).group(1));
        }
    }

    private static Thread collect(java.io.InputStream stream, StringBuffer text) {
        Thread thread = new Thread(() -> {
            try (var reader = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
                reader.lines().forEach(line -> text.append(line).append('\n'));
            } catch (IOException | java.io.UncheckedIOException closed) {
                // The process has ended.
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private Matcher await(StringBuffer text, Pattern pattern) throws InterruptedException {
        long beganNanos = System.nanoTime();
        while (true) {
            Matcher matcher = pattern.matcher(text.toString());
            if (matcher.find()) {
                return matcher;
            }
            if (!process.isAlive() || System.nanoTime() - beganNanos > PATIENCE_NANOS) {
                throw new AssertionError("no " + pattern + " in:\n" + output + errors);
            }
            Thread.sleep(10);
        }
    }

    /** Waits until the agent has said something like this since the last time. */
    void awaitSaid(String regex) throws InterruptedException {
        int end = await(errors, Pattern.compile(regex)).end();
        errors.delete(0, end);
    }

    /** After the agent was put in while the server ran. */
    void awaitMetrics() throws InterruptedException {
        metricsPort = Integer.parseInt(await(errors, METRICS).group(1));
    }

    /** What it prints on standard output and fits the expression: its first group. */
    String awaitPrinted(String regex) throws InterruptedException {
        return await(output, Pattern.compile(regex)).group(1);
    }

    String said() {
        return errors.toString();
    }

    void configure(String text, String answer) throws Exception {
        Files.writeString(config, text);
        awaitSaid(answer);
    }

    /** Runs the jar as a person would: attach or detach. Returns its exit code. */
    int tell(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(JAVA, "-jar", JAR.toString()));
        command.addAll(List.of(arguments));
        Process told = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(told.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (told.waitFor() != 0) {
            errors.append(said);
        }
        return told.exitValue();
    }

    /** Puts an agent in, ours or another one, and tells it this. */
    void load(Path jar, String told) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(pid());
        try {
            machine.loadAgent(jar.toString(), told);
        } catch (AgentInitializationException refused) {
            throw new AssertionError(said(), refused);
        } finally {
            machine.detach();
        }
    }

    /** One of its system properties; null if there is none. */
    String property(String name) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(pid());
        try {
            return machine.getSystemProperties().getProperty(name);
        } finally {
            machine.detach();
        }
    }

    String pid() {
        return Long.toString(process.pid());
    }

    Connection.Answer get(String path) throws IOException {
        return Load.get(port, path);
    }

    String metrics() throws Exception {
        return Load.get(metricsPort, "/metrics").body();
    }

    /** One value of the metrics. */
    double metric(String line) throws Exception {
        return metrics().lines()
                .filter(found -> found.startsWith("quartier_degrade_" + line + " "))
                .mapToDouble(found -> Double.parseDouble(found.substring(found.lastIndexOf(' '))))
                .findFirst()
                .orElseThrow(() -> new AssertionError("no metric " + line));
    }

    /** Waits until it is there: a client has its answer before the server has finished. */
    void awaitMetric(String line, double atLeast) throws Exception {
        long beganNanos = System.nanoTime();
        while (metric(line) < atLeast || atLeast == 0 && metric(line) > 0) {
            if (System.nanoTime() - beganNanos > PATIENCE_NANOS) {
                throw new AssertionError(line + " does not come to " + atLeast + ":\n" + metrics() + errors);
            }
            Thread.sleep(20);
        }
    }

    @Override
    public void close() throws Exception {
        // Not the process's own method: that closes its streams, and what it says at the end is lost.
        process.toHandle().destroy();
        if (!process.waitFor(10, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
        }
        // What it said at the end is worth knowing too.
        for (Thread collector : collectors) {
            collector.join(TimeUnit.SECONDS.toMillis(10));
        }
        Files.delete(config);
    }
}
