package bench;

import java.util.List;
import java.util.Locale;

/** Who decides which service gets slow. */
enum Variant {
    UNMODIFIED(TomcatMain.class, "plain"),
    PRIORITIES(TomcatMain.class, "priorities"),
    LIMITS(TomcatMain.class, "limits"),
    JETTY(JettyMain.class, "plain"),
    JETTY_QOS(JettyMain.class, "qos"),
    FAIR(TomcatMain.class, "plain"),
    WEIGHTED(TomcatMain.class, "plain"),
    PRIORITY(TomcatMain.class, "plain"),
    PROTECT(TomcatMain.class, "plain"),
    CURVE(TomcatMain.class, "plain"),
    /** Which sends heavy ones away when many wait: else these have all of the server's threads, and light ones none. */
    PROTECT_QUEUE(TomcatMain.class, "plain"),
    JDK(JdkMain.class),
    JDK_PROTECT(JdkMain.class),
    JDK_CURVE(JdkMain.class),
    JETTY_PROTECT(JettyMain.class, "plain"),
    JETTY_CURVE(JettyMain.class, "plain");

    /** What is woven of them, and which requests are whose. */
    static final String SERVICES = """

        [weave]
        include = ["trial.**", "com.sun.org.apache.xerces.**"]

        [[class]]
        name = "light"
        paths = "/light"
        weight = 3
        priority = 5

        [[class]]
        name = "heavy"
        paths = "/heavy"
        """;

    static final int NR_HEAVY_MOST = 40;

    private static final double LOOSE_MILLIS = 2000;
    /** More than there are heavy clients in a closed loop, and fewer than the server's 200 threads. */
    private static final int HEAVY_QUEUE = 100;

    private final Class<?> main;
    private final String[] arguments;

    Variant(Class<?> main, String... arguments) {
        this.main = main;
        this.arguments = arguments;
    }

    boolean isOurs() {
        return compareTo(FAIR) >= 0 && this != JDK;
    }

    String word() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** Held to nothing yet, if it is ours. */
    ServerProcess start() throws Exception {
        return new ServerProcess(main.getName(), isOurs() ? looseConfig() : null, jvm(), arguments);
    }

    /** Else a JVM takes no notice of its threads' priorities. */
    private List<String> jvm() {
        return this == PRIORITIES ? List.of("-XX:ThreadPriorityPolicy=1") : List.of();
    }

    /** Of ours, what decides. */
    private String policy() {
        return this == PROTECT_QUEUE ? PROTECT.policy() : word().substring(word().lastIndexOf('-') + 1);
    }

    boolean hasTarget() {
        return isOurs() && List.of("protect", "curve").contains(policy());
    }

    /**
     * What the light service's p95 is held to beside so many heavy requests.
     *
     * @param aloneMillis what it is without heavy requests
     */
    double targetMillis(double aloneMillis, int nrHeavy) {
        return policy().equals("curve") ? aloneMillis * (1 + 2.0 * nrHeavy / NR_HEAVY_MOST) : 1.4 * aloneMillis;
    }

    /** Held to nothing. */
    String looseConfig() {
        return config(LOOSE_MILLIS);
    }

    String config(double aloneMillis) {
        return String.format(Locale.ROOT, """
            policy = "%s"

            [protect]
            class = "light"
            p95_ms = %.3f

            [curve]
            class = "light"
            load = "heavy"
            points = [[0, %.3f], [%d, %.3f]]
            """,
                policy(),
                targetMillis(aloneMillis, 0),
                targetMillis(aloneMillis, 0),
                NR_HEAVY_MOST,
                targetMillis(aloneMillis, NR_HEAVY_MOST)) + SERVICES + (this == PROTECT_QUEUE ? "queue = " + HEAVY_QUEUE + "\n" : "");
    }
}
