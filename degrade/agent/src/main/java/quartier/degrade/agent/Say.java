package quartier.degrade.agent;

/** What the operator is told: a line on the standard error stream, which every server keeps somewhere. */
final class Say {
    private Say() {}

    static void say(String what) {
        System.err.println("quartier-degrade: " + what);
    }
}
