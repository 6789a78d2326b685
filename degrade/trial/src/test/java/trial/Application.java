package trial;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;

/**
 * What runs in a JVM of its own.
 *
 * @param java the JDK's folder
 * @param options of the JVM, before our agent
 * @param agentsAfter jars that are agents too, after ours, each with our file as its argument
 */
record Application(
        Path java,
        String main,
        String classPath,
        List<String> arguments,
        List<String> options,
        List<Path> agentsAfter) {

    private static final Path JAVA = Path.of(System.getProperty("trial.java.home", System.getProperty("java.home")));

    /** One of this module. */
    static Application of(Class<?> main, String... arguments) {
        String classPath = System.getProperty("java.class.path");
        return new Application(JAVA, main.getName(), classPath, List.of(arguments), List.of(), List.of());
    }

    /** One of a module beside, which has its own libraries. */
    static Application in(String module, String main, String... arguments) throws IOException {
        return new Application(
                JAVA, main, classPath(Path.of(module, "target", "classes"), module), List.of(arguments), List.of(), List.of());
    }

    /** One of this module, with the libraries of one beside. */
    static Application withLibraries(Class<?> main, String module) throws IOException {
        String classPath = classPath(Path.of("target", "classes"), module);
        return new Application(JAVA, main.getName(), classPath, List.of(), List.of(), List.of());
    }

    /** Servlets of Jetty's in an environment that has libraries of its own. */
    static Application jettyServlets(String environment) throws IOException {
        String classPath = classPath(Path.of("jetty", "target", "classes"), "jetty-" + environment);
        return new Application(JAVA, "trial.JettyServletsMain", classPath, List.of(environment), List.of(), List.of());
    }

    private static String classPath(Path classes, String module) throws IOException {
        return classes + ":" + Files.readString(Path.of(module, "target", "class-path")).strip();
    }

    /** An agent's jar that has nothing in it: its classes are on the application's class path. */
    static Path agent(Class<?> main) throws IOException {
        Manifest manifest = new Manifest();
        Attributes attributes = manifest.getMainAttributes();
        attributes.put(Attributes.Name.MANIFEST_VERSION, "1.0");
        attributes.putValue("Premain-Class", main.getName());
        attributes.putValue("Agent-Class", main.getName());
        attributes.putValue("Can-Retransform-Classes", "true");
        Path jar = Files.createTempFile("other-agent", ".jar");
        try (OutputStream stream = Files.newOutputStream(jar)) {
            new JarOutputStream(stream, manifest).close();
        }
        return jar;
    }

    Application on(Path otherJava) {
        return new Application(otherJava, main, classPath, arguments, options, agentsAfter);
    }

    Application with(String option) {
        List<String> more = new ArrayList<>(options);
        more.add(option);
        return new Application(java, main, classPath, arguments, more, agentsAfter);
    }

    /** For tests that do not time anything: a JVM that starts sooner. */
    Application quick() {
        return with("-XX:TieredStopAtLevel=1");
    }

    Application withAgentAfter(Path jar) {
        return new Application(java, main, classPath, arguments, options, List.of(jar));
    }

    /** All that starts it. */
    List<String> command(Path temporary, Path agent, Path config) {
        List<String> command = new ArrayList<>(List.of(
                java.resolve("bin").resolve("java").toString(), "-Djava.io.tmpdir=" + temporary));
        command.addAll(options);
        if (agent != null) {
            command.add("-javaagent:" + agent + "=" + config);
        }
        agentsAfter.forEach(jar -> command.add("-javaagent:" + jar + "=" + config));
        command.addAll(List.of("-cp", classPath, main));
        command.addAll(arguments);
        return command;
    }

    @Override
    public String toString() {
        return main + arguments;
    }
}
