package quartier.degrade.agent;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import javax.management.JMException;
import javax.management.ObjectName;
import quartier.degrade.core.ClassReport;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.Settings.Mode;

/** The agent in JMX. */
final class Jmx implements DegradeMXBean, AutoCloseable {
    static final String NAME = "quartier.degrade:type=Agent";

    private final Dispatcher dispatcher;

    /** Throws nothing of its module's: where that is not there, whoever catches it could not even be loaded, to say so. */
    Jmx(Dispatcher dispatcher) {
        this.dispatcher = dispatcher;
        try {
            ManagementFactory.getPlatformMBeanServer().registerMBean(this, new ObjectName(NAME));
        } catch (JMException thrown) {
            throw new IllegalStateException(thrown);
        }
    }

    @Override
    public String getMode() {
        return word(dispatcher.settings().mode());
    }

    static String word(Enum<?> mode) {
        return mode.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    @Override
    public void setMode(String wanted) {
        for (Mode mode : Mode.values()) {
            if (word(mode).equals(wanted)) {
                dispatcher.configure(dispatcher.settings().withMode(mode));
                Say.say("mode " + wanted + ", as somebody said by JMX");
                return;
            }
        }
        throw new IllegalArgumentException("there is no mode \"" + wanted + "\"; there are on, dry-run and off");
    }

    @Override
    public Map<String, Map<String, Double>> getClasses() {
        Map<String, Map<String, Double>> classes = new LinkedHashMap<>();
        for (ClassReport report : dispatcher.report()) {
            Map<String, Double> values = new LinkedHashMap<>();
            Figure.ALL.forEach(figure ->
                    figure.value().apply(report).ifPresent(value -> values.put(figure.name(), value)));
            put(values, "p50_seconds", report.p50Nanos());
            put(values, "p95_seconds", report.p95Nanos());
            put(values, "p99_seconds", report.p99Nanos());
            classes.put(report.name(), values);
        }
        return classes;
    }

    private static void put(Map<String, Double> values, String name, OptionalLong nanos) {
        nanos.ifPresent(value -> values.put(name, value / 1e9));
    }

    @Override
    public void close() {
        try {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(new ObjectName(NAME));
        } catch (JMException gone) {
            // Somebody else has taken it out.
        }
    }
}
