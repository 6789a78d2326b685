package trial;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Light requests of a real application beside heavy ones, unmanaged and protected, alternating.
 *
 * <p>{@code java -Dagent.jar=JAR -cp ... trial.WebappTrial [HEAVY_CLIENTS [LIGHT_CLIENTS [DOCUMENTS_GOT [ROUNDS]]]]}
 */
final class WebappTrial {
    private static final int NR_DOCUMENTS = 1000;
    private static final int NR_WARM = 6;
    /** So many clients of one kind leave no CPU anything to do. */
    private static final int NR_TO_FILL = 8;

    private final Documents documents;
    private final int nrHeavy;
    private final int nrLight;
    private final int nrAnswers;
    private double lightSeconds;
    private double heavySeconds;

    private WebappTrial(Documents documents, int nrHeavy, int nrLight, int nrAnswers) {
        this.documents = documents;
        this.nrHeavy = nrHeavy;
        this.nrLight = nrLight;
        this.nrAnswers = nrAnswers;
    }

    public static void main(String[] arguments) throws Exception {
        String off = Documents.config("mode = \"off\"\npolicy = \"fair\"\n");
        try (ServerProcess server = new ServerProcess(Documents.application(), off)) {
            Documents documents = new Documents(server.port, NR_DOCUMENTS);
            documents.put();
            WebappTrial trial = new WebappTrial(
                    documents, argument(arguments, 0, 8), argument(arguments, 1, 8), argument(arguments, 2, 3000));
            trial.warm();
            trial.compare(server, off, argument(arguments, 3, 5));
        }
    }

    private static int argument(String[] arguments, int at, int otherwise) {
        return at < arguments.length ? Integer.parseInt(arguments[at]) : otherwise;
    }

    /** First with few clients: the compiler's threads get a CPU as seldom as all others. Then learns what a request costs. */
    private void warm() throws InterruptedException {
        for (int warm = 0; warm < NR_WARM; warm++) {
            documents.load(1, 1, nrAnswers, 50);
        }
        for (int warm = 0; warm < NR_WARM; warm++) {
            documents.load(nrLight, nrHeavy, nrAnswers, 50);
        }
        int nrCpus = Runtime.getRuntime().availableProcessors();
        lightSeconds = nrCpus / show("documents only", NR_TO_FILL, 0, 3000, 0).perSecond("light");
        heavySeconds = nrCpus / show("searches only", 0, NR_TO_FILL, 0, 300).perSecond("heavy");
    }

    private void compare(ServerProcess server, String off, int nrRounds) throws Exception {
        Timed alone = show("alone", nrLight, 0, nrAnswers, 0);
        double targetMillis = 1.4 * alone.lightP95Millis();
        String protect = Documents.protect(targetMillis);
        List<Double> unmanaged = new ArrayList<>();
        List<Double> managed = new ArrayList<>();
        List<Double> useful = new ArrayList<>();
        for (int round = 0; round < nrRounds; round++) {
            server.configure(off, "reloaded");
            Timed without = show("unmanaged", nrLight, nrHeavy, nrAnswers, 20);
            server.configure(protect, "reloaded");
            Timed with = show("protected", nrLight, nrHeavy, nrAnswers, 20);
            unmanaged.add(without.lightP95Millis() / alone.lightP95Millis());
            managed.add(with.lightP95Millis() / alone.lightP95Millis());
            useful.add(usefulPerSecond(with) / usefulPerSecond(without));
        }
        System.out.printf("light p95 over alone, %d light, %d heavy, target 1.4: unmanaged %s, protected %s%n",
                nrLight, nrHeavy, sorted(unmanaged), sorted(managed));
        System.out.printf("useful work, protected over unmanaged: %s%n", sorted(useful));
        server.metrics().lines()
                .filter(line -> line.matches(".*(lent|overdue|opened|yields|faults)_total.*"))
                .forEach(System.out::println);
    }

    private static String sorted(List<Double> ratios) {
        return Arrays.toString(ratios.stream().sorted().map(ratio -> String.format("%.2f", ratio)).toArray());
    }

    /** CPU seconds of what was answered, each as it takes when its kind is alone. */
    private double usefulPerSecond(Timed timed) {
        return timed.perSecond("light") * lightSeconds + timed.perSecond("heavy") * heavySeconds;
    }

    private record Timed(Load load, double seconds) {
        double perSecond(String name) {
            return load.nr(name) / seconds;
        }

        double lightP95Millis() {
            return load.quantileMillis("light", 0.95);
        }
    }

    private Timed show(String how, int light, int heavy, int answers, int searches) throws InterruptedException {
        long beganNanos = System.nanoTime();
        Load load = documents.load(light, heavy, answers, searches);
        Timed timed = new Timed(load, (System.nanoTime() - beganNanos) / 1e9);
        System.out.printf("%s, %.1f s: %s, failures %s%n", how, timed.seconds, load, load.failures());
        return timed;
    }
}
