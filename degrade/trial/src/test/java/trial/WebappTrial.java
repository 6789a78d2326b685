package trial;

import java.util.ArrayList;
import java.util.List;

/**
 * Light requests of a real application beside heavy ones, unmanaged and protected, alternating.
 *
 * <p>{@code java -Dagent.jar=JAR -cp ... trial.WebappTrial [HEAVY_CLIENTS [ROUNDS [DOCUMENTS]]]}
 */
final class WebappTrial {
    private static final int NR_LIGHT = Integer.getInteger("light", 8);
    private static final int NR_ANSWERS = Integer.getInteger("answers", 3000);
    private static final int NR_WARM = 6;

    private WebappTrial() {}

    public static void main(String[] arguments) throws Exception {
        int nrHeavy = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 8;
        int nrRounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 3;
        int nrDocuments = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1000;
        String off = Documents.config("mode = \"off\"\npolicy = \"fair\"\n");
        try (ServerProcess server = new ServerProcess(Documents.application(), off)) {
            Documents documents = new Documents(server.port, nrDocuments);
            documents.put();
            // The compiler's threads get a CPU as seldom as all others: first with few.
            for (int warm = 0; warm < NR_WARM; warm++) {
                documents.load(1, 1, NR_ANSWERS, 50);
            }
            for (int warm = 0; warm < NR_WARM; warm++) {
                documents.load(NR_LIGHT, nrHeavy, NR_ANSWERS, 50);
            }
            show("alone", documents, 0, null);
            Load alone = documents.load(NR_LIGHT, 0, NR_ANSWERS, 0);
            long targetMillis = Math.max(1, Math.round(1.4 * alone.quantileMillis("light", 0.95)));
            String protect = Documents.config("""
                policy = "protect"
                """).replace("[weave]", """
                [protect]
                class = "light"
                p95_ms = %d

                [weave]""".formatted(targetMillis));
            List<Double> unmanaged = new ArrayList<>();
            List<Double> managed = new ArrayList<>();
            for (int round = 0; round < nrRounds; round++) {
                server.configure(off, "reloaded");
                unmanaged.add(show("unmanaged", documents, nrHeavy, alone));
                server.configure(protect, "reloaded");
                managed.add(show("protected", documents, nrHeavy, alone));
            }
            System.out.printf("light p95 over alone, %d heavy, target %d ms: unmanaged %s, protected %s%n", nrHeavy,
                    targetMillis, ProtectTrial.sorted(unmanaged), ProtectTrial.sorted(managed));
            server.metrics().lines()
                    .filter(line -> line.matches(".*(lent|overdue|opened|yields|faults)_total.*"))
                    .forEach(System.out::println);
        }
    }

    private static double show(String how, Documents documents, int nrHeavy, Load alone)
            throws InterruptedException {
        long beganNanos = System.nanoTime();
        Load load = documents.load(NR_LIGHT, nrHeavy, NR_ANSWERS, 20);
        double seconds = (System.nanoTime() - beganNanos) / 1e9;
        System.out.printf("%s: %s, %.1f documents/s, %.1f searches/s, failures %s%n",
                how, load, load.nr("light") / seconds, nrHeavy == 0 ? 0 : load.nr("heavy") / seconds, load.failures());
        return alone == null ? 1 : load.quantileMillis("light", 0.95) / alone.quantileMillis("light", 0.95);
    }
}
