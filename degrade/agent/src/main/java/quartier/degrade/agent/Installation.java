package quartier.degrade.agent;

import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import quartier.degrade.config.Config;
import quartier.degrade.config.ConfigException;
import quartier.degrade.config.ConfigReader;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.Settings;
import quartier.degrade.gate.Gate;

/** Everything that is active in this JVM: put in as a whole, taken out as a whole. */
final class Installation {
    /** Fair between requests, and a page somewhere. */
    private static final String WITHOUT_FILE = "metrics_port = 0\n";
    private static Installation active;

    private final Path file;
    private final Dispatcher dispatcher;
    private final Controller controller;
    private final Weaving weaving;
    private final ConfigWatch watch;
    private final Totals totals;
    private final RuleWatch rules;
    private final TargetWatch targets;
    private final View view;
    private final History history;
    private DispatcherHook hook;
    private MetricsServer metrics;
    private Jmx jmx;
    private Config config;

    private Installation(Path file, Config config, Instrumentation instrumentation) {
        this.file = file;
        this.config = config;
        this.dispatcher = new Dispatcher(config.settings(), System::nanoTime, Gate::ask);
        this.controller = new Controller(dispatcher);
        this.weaving = new Weaving(config, instrumentation);
        this.rules = new RuleWatch(dispatcher);
        this.targets = new TargetWatch(dispatcher);
        this.watch = new ConfigWatch(file, this::reload, this::look);
        this.totals = new Totals(dispatcher, weaving, watch);
        this.view = new View(file, dispatcher, weaving, watch, rules);
        this.history = new History(view);
    }

    /**
     * @param file null for what is done without one
     * @return what is active now, in words
     */
    static String start(Path file, Instrumentation instrumentation) throws ConfigException {
        return start(file, read(file), instrumentation);
    }

    static Config read(Path file) throws ConfigException {
        return file == null ? ConfigReader.parse(WITHOUT_FILE, "", nrCpus()) : ConfigReader.read(file, nrCpus());
    }

    static synchronized String start(Path file, Config config, Instrumentation instrumentation) {
        if (Gate.isConnected()) {
            throw new IllegalStateException(
                    "an agent is active in this JVM already: change its configuration, or take it out first");
        }
        if (!instrumentation.isRetransformClassesSupported()) {
            throw new IllegalStateException(
                    "this JVM cannot change loaded classes: use one with java.instrument, such as OpenJDK's HotSpot");
        }
        requireManagement();
        Installation installation = new Installation(file, config, instrumentation);
        active = installation;
        try {
            return installation.begin();
        } catch (RuntimeException | Error failed) {
            stop();
            throw failed;
        }
    }

    private static void requireManagement() {
        try {
            Class.forName("java.lang.management.ManagementFactory", false, null);
        } catch (ClassNotFoundException missing) {
            throw new IllegalStateException(
                    "this JVM has no module java.management, so nobody knows what CPU time a thread has had: use one that has it");
        }
    }

    /** What is active here, or null. */
    static synchronized Installation active() {
        return active;
    }

    /** What the container allows, where there is one. */
    private static int nrCpus() {
        return Runtime.getRuntime().availableProcessors();
    }

    private String begin() {
        controller.start();
        rules.restart(config.unmatchedAfterNanos());
        if (file != null) {
            watch.start();
        }
        serveMetrics();
        registerWithJmx();
        weaving.begin();
        // From now on, requests that begin are jobs: all that they call is woven, and counts what it holds.
        hook = new DispatcherHook(dispatcher, rules);
        Gate.connect(hook);
        history.start();
        String said = "active: " + described(config.settings()) + (file == null ? "" : ", as " + file + " says");
        Say.say(said);
        return said + (metrics == null ? "" : ", page at " + metrics.page());
    }

    private static String described(Settings settings) {
        return settings.nrPermits() + " permits, " + settings.classes().size() + " classes, mode "
                + Modes.word(settings.mode());
    }

    private void serveMetrics() {
        if (config.metricsPort().isEmpty()) {
            return;
        }
        try {
            OpenMetrics text = new OpenMetrics(dispatcher, totals);
            metrics = new MetricsServer(config.metricsPort().getAsInt(), text, history);
            view.setPage(metrics.page());
            Say.say("metrics at " + metrics.address() + ", page at " + metrics.page());
        } catch (IOException thrown) {
            Say.say("no page and no metrics: port " + config.metricsPort().getAsInt() + " cannot be served (" + thrown.getMessage()
                    + "); choose another metrics_port, or 0 for any that is free");
        } catch (LinkageError missing) {
            Say.say("no page and no metrics: this JVM has no module jdk.httpserver (" + missing + "); use one that has it");
        }
    }

    private void registerWithJmx() {
        try {
            jmx = new Jmx(dispatcher, totals);
        } catch (IllegalStateException | LinkageError thrown) {
            Say.say("not seen in JMX (" + thrown + "); the rest works");
        }
    }

    /** A file that is wrong changes nothing. */
    private synchronized boolean reload() {
        try {
            Config read = ConfigReader.read(file, nrCpus());
            dispatcher.configure(read.settings());
            rules.restart(read.unmatchedAfterNanos());
            sayWhatIsForLater(read);
            Say.say("reloaded: " + described(read.settings()));
            return true;
        } catch (ConfigException thrown) {
            thrown.problems().forEach(Say::say);
            Say.say("the configuration stays what it was until " + file + " is corrected");
            return false;
        }
    }

    private void sayWhatIsForLater(Config read) {
        List<String> changed = new ArrayList<>();
        if (!read.weavesAs(config)) {
            changed.add("[weave]");
        }
        if (!read.metricsPort().equals(config.metricsPort())) {
            changed.add("metrics_port");
        }
        if (!changed.isEmpty()) {
            Say.say(String.join(" and ", changed) + " as the file has it now is for the next start, or the next attach");
        }
    }

    private void look() {
        rules.look();
        targets.look();
    }

    static synchronized void stop() {
        if (active == null) {
            throw new IllegalStateException("no agent is active in this JVM: there is nothing to take out");
        }
        active.end();
        active = null;
    }

    DispatcherHook hook() {
        return hook;
    }

    /** What a request waited on average, in the last second, before anybody saw it. */
    long beforeEntryNanos() {
        return dispatcher.unseenWaitNanos();
    }

    /** Returns what holds now, in words. */
    String setMode(String wanted) {
        Modes.set(dispatcher, wanted, "`quartier degrade mode`");
        history.look();
        return "mode " + wanted + (file == null ? "" : ", until " + file + " is written again");
    }

    Points points() {
        return weaving.points();
    }

    private void end() {
        Gate.connect(null);
        controller.stop();
        dispatcher.open();
        watch.stop();
        if (metrics != null) {
            metrics.close();
        }
        if (jmx != null) {
            jmx.close();
        }
        history.stop();
        weaving.end();
        Say.say("taken out");
    }
}
