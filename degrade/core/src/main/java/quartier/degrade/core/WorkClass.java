package quartier.degrade.core;

/**
 * A class of work, as configured.
 *
 * @param weight its share among classes that want more than there is
 * @param minimumShare the part of all permit time that it gets before anybody gets more than theirs, 0 to 1
 * @param priority the greater, the earlier
 */
public record WorkClass(
        String name, Rule rule, double weight, double minimumShare, int priority, Admission admission) {

    public WorkClass {
        if (!(weight > 0) || !(minimumShare >= 0 && minimumShare < 1)) {
            throw new IllegalArgumentException(
                    "class " + name + ": weight " + weight + ", minimum share " + minimumShare);
        }
    }

    /** A class with nothing particular about it. */
    public static WorkClass plain(String name) {
        return new WorkClass(name, Rule.ANY, 1, 0, 0, Admission.UNBOUNDED);
    }

    public WorkClass withWeight(double newWeight) {
        return new WorkClass(name, rule, newWeight, minimumShare, priority, admission);
    }

    public WorkClass withMinimumShare(double newShare) {
        return new WorkClass(name, rule, weight, newShare, priority, admission);
    }

    public WorkClass withPriority(int newPriority) {
        return new WorkClass(name, rule, weight, minimumShare, newPriority, admission);
    }

    public WorkClass withAdmission(Admission newAdmission) {
        return new WorkClass(name, rule, weight, minimumShare, priority, newAdmission);
    }

    /**
     * What no scheduling can save is sent away before it begins.
     *
     * @param queueMax how many may wait to begin
     * @param waitMaxNanos how long one may wait to begin
     * @param retryAfterSeconds what a client is told; negative for nothing
     */
    public record Admission(int queueMax, long waitMaxNanos, int rejectCode, int retryAfterSeconds) {
        public static final Admission UNBOUNDED = new Admission(Integer.MAX_VALUE, Long.MAX_VALUE, 503, 1);

        boolean isUnbounded() {
            return queueMax == Integer.MAX_VALUE && waitMaxNanos == Long.MAX_VALUE;
        }
    }
}
