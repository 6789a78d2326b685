package quartier.degrade.agent;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import javax.management.JMException;
import javax.management.ObjectName;
import quartier.degrade.core.ClassReport;
import quartier.degrade.core.Dispatcher;

/** The agent in JMX. */
final class Jmx implements DegradeMXBean, AutoCloseable {
    static final String NAME = "quartier.degrade:type=Agent";

    private final Dispatcher dispatcher;
    private final Totals totals;

    /** Throws nothing of its module's: where that is not there, whoever catches it could not even be loaded, to say so. */
    Jmx(Dispatcher dispatcher, Totals totals) {
        this.dispatcher = dispatcher;
        this.totals = totals;
        try {
            ManagementFactory.getPlatformMBeanServer().registerMBean(this, new ObjectName(NAME));
        } catch (JMException thrown) {
            throw new IllegalStateException(thrown);
        }
    }

    @Override
    public String getMode() {
        return Modes.word(dispatcher.settings().mode());
    }

    @Override
    public void setMode(String wanted) {
        Modes.set(dispatcher, wanted, "JMX");
    }

    @Override
    public String getPolicy() {
        return dispatcher.policyName();
    }

    @Override
    public Map<String, Double> getTotals() {
        Map<String, Double> values = new LinkedHashMap<>();
        Totals.ALL.forEach(total -> total.value().apply(totals).ifPresent(value -> values.put(total.name(), value)));
        return values;
    }

    @Override
    public Map<String, Map<String, Double>> getClasses() {
        Map<String, Map<String, Double>> classes = new LinkedHashMap<>();
        for (ClassReport report : dispatcher.report()) {
            Map<String, Double> values = new LinkedHashMap<>();
            Figure.OF_CLASSES.forEach(figure ->
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
