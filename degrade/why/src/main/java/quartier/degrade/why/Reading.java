package quartier.degrade.why;

import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * What the kernel has counted of a thread, and when that was.
 *
 * @param counted null where it does not say
 */
record Reading(long atNanos, Schedstat counted) {
    /** To read takes some 20 µs. A thread that took longer has lost its CPU meanwhile. */
    private static final long LOST_NANOS = 100_000;
    private static final int NR_TRIES = 3;

    /** Of the calling thread. */
    static Reading own() {
        return of(System::nanoTime, Schedstat::own);
    }

    /** What a thread waited in the middle of it may be counted already or not: then it reads again. */
    static Reading of(LongSupplier clock, Supplier<Schedstat> kernel) {
        for (int nrTries = 1; ; nrTries++) {
            Reading reading = new Reading(clock.getAsLong(), kernel.get());
            if (nrTries == NR_TRIES || clock.getAsLong() - reading.atNanos < LOST_NANOS) {
                return reading;
            }
        }
    }

    /** How long since another reading it was neither on a CPU nor waiting for one; all the time where that is not known. */
    long blockedNanosSince(Reading before) {
        long nanos = atNanos - before.atNanos;
        if (counted != null && before.counted != null) {
            nanos -= counted.cpuNanos() - before.counted.cpuNanos() + counted.waitedNanos() - before.counted.waitedNanos();
        }
        return Math.max(0, nanos);
    }
}
