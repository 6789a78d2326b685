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
    JDK(JdkMain.class),
    JDK_PROTECT(JdkMain.class),
    JDK_CURVE(JdkMain.class);

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

    /** @param aloneMillis the light service's p95 without heavy requests, which targets are set by */
    ServerProcess start(double aloneMillis) throws Exception {
        return new ServerProcess(main.getName(), isOurs() ? config(aloneMillis) : null, jvm(), arguments);
    }

    /** Else a JVM takes no notice of its threads' priorities. */
    private List<String> jvm() {
        return this == PRIORITIES ? List.of("-XX:ThreadPriorityPolicy=1") : List.of();
    }

    /** The line that {@code curve} is to follow: the light service's p95 beside so many heavy requests. */
    static double curveMillis(double aloneMillis, int nrHeavy) {
        return aloneMillis * (1.3 + 1.7 * nrHeavy / 40);
    }

    private String config(double aloneMillis) {
        return """
            policy = "%s"

            [protect]
            class = "light"
            p95_ms = %d

            [curve]
            class = "light"
            load = "heavy"
            points = [[0, %d], [40, %d]]
            """.formatted(
                word().replace("jdk-", ""),
                Math.round(1.4 * aloneMillis),
                Math.round(curveMillis(aloneMillis, 0)),
                Math.round(curveMillis(aloneMillis, 40))) + SERVICES;
    }
}
