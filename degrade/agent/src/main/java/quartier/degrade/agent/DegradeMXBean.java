package quartier.degrade.agent;

import java.util.Map;

/** What JMX shows, and the switch. Names of values are those of the metrics; what is not known is not there. */
public interface DegradeMXBean {
    /** {@code on}, {@code dry-run} or {@code off}. */
    String getMode();

    /** Until the file is read again. */
    void setMode(String mode);

    String getPolicy();

    Map<String, Map<String, Double>> getClasses();

    /** What is of no class. */
    Map<String, Double> getTotals();
}
