package trial;

import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;

/**
 * What woven code costs while nobody is asked: CPU time of the services in a JVM with the agent over that in one
 * without, alternating. CPU time, because a machine does other things too.
 *
 * <p>{@code java -cp ... trial.Overhead AGENT_JAR [PAIRS]}
 */
public final class Overhead {
    private static final int NR_WARM_UP = 200;
    private static final int NR_MEASURED = 150;

    private Overhead() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            measure("light", Services::light);
            measure("heavy", Services::heavy);
            return;
        }
        int nrPairs = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 5;
        for (boolean leafLoops : new boolean[] {false, true}) {
            Path config = Files.createTempFile("overhead", ".toml");
            Files.writeString(config, "[weave]\ninclude = [\"trial.**\", \"com.sun.org.apache.xerces.**\"]\n"
                    + "leaf_loops = " + leafLoops + "\n");
            compare(leafLoops, "-javaagent:" + arguments[0] + "=" + config, nrPairs);
            Files.delete(config);
        }
    }

    private static void compare(boolean leafLoops, String agent, int nrPairs) throws Exception {
        Map<String, List<Double>> ratios = new TreeMap<>();
        for (int pair = 0; pair < nrPairs; pair++) {
            Map<String, Double> without = child(List.of());
            Map<String, Double> with = child(List.of(agent));
            with.forEach((service, nanos) -> ratios.computeIfAbsent(service, key -> new ArrayList<>())
                    .add(nanos / without.get(service)));
        }
        ratios.forEach((service, each) -> {
            double[] sorted = each.stream().mapToDouble(ratio -> ratio).sorted().toArray();
            System.out.printf("%s, points in leaf loops %s: CPU time with over without: median %.3f (%.3f to %.3f, %d pairs)%n",
                    service, leafLoops ? "too" : "left out", sorted[sorted.length / 2], sorted[0],
                    sorted[sorted.length - 1], sorted.length);
        });
    }

    private static Map<String, Double> child(List<String> options) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(options);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Overhead.class.getName()));
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Map<String, Double> nanos = new TreeMap<>();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        output.lines().map(line -> line.split(" ")).filter(words -> words[0].equals("nanos"))
                .forEach(words -> nanos.put(words[1], Double.parseDouble(words[2])));
        if (process.waitFor() != 0 || nanos.size() != 2) {
            throw new IllegalStateException("the measured JVM failed: " + output);
        }
        return nanos;
    }

    private static void measure(String name, Supplier<String> service) {
        var threads = ManagementFactory.getThreadMXBean();
        long[] nanos = new long[NR_MEASURED];
        int nrAnswers = 0;
        for (int at = -NR_WARM_UP; at < NR_MEASURED; at++) {
            long began = threads.getCurrentThreadCpuTime();
            nrAnswers += service.get().length();
            if (at >= 0) {
                nanos[at] = threads.getCurrentThreadCpuTime() - began;
            }
        }
        Arrays.sort(nanos);
        System.out.println("nanos " + name + " " + nanos[NR_MEASURED / 2] + " of " + nrAnswers);
    }
}
