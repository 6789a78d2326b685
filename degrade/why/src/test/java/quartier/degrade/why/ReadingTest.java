package quartier.degrade.why;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** A thread that reads what the kernel has counted of it, and may lose its CPU in the middle. */
class ReadingTest {
    private static final long US = 1_000;
    private static final long MS = 1_000_000;

    private long nowNanos;
    private long waitedNanos;
    private long blockedNanos;
    /** How long it waits for a CPU in the next readings, before the kernel is asked and after. */
    private long[] losesBefore = {};
    private long[] losesAfter = {};
    private int nrReadings;

    private void loses(long[] of) {
        long nanos = nrReadings < of.length ? of[nrReadings] : 0;
        nowNanos += nanos;
        waitedNanos += nanos;
    }

    private Schedstat ask() {
        loses(losesBefore);
        nowNanos += 20 * US;
        Schedstat counted = new Schedstat(nowNanos - waitedNanos - blockedNanos, waitedNanos, 1);
        loses(losesAfter);
        nrReadings++;
        return counted;
    }

    private Reading read(long[] newLosesBefore, long[] newLosesAfter) {
        nrReadings = 0;
        losesBefore = newLosesBefore;
        losesAfter = newLosesAfter;
        return Reading.of(() -> nowNanos, this::ask);
    }

    /** It loses its CPU in the first reading, in the second, in both, at each place in them, once and twice. */
    @Test
    void whatItWaitsForACpuWhileItReadsChangesNothing() {
        long[][] all = {{}, {3 * MS}, {3 * MS, 4 * MS}};
        long[] none = all[0];
        for (long[] first : all) {
            for (long[] second : all) {
                for (int places = 0; places < 4; places++) {
                    Reading began = (places & 1) == 0 ? read(first, none) : read(none, first);
                    nowNanos += 5 * MS + 7 * MS;
                    blockedNanos += 7 * MS;
                    Reading ended = (places & 2) == 0 ? read(second, none) : read(none, second);
                    assertEquals(7 * MS, ended.blockedNanosSince(began), 20 * US, first.length + ", " + second.length + ", " + places);
                }
            }
        }
    }

    @Test
    void whereNothingIsCountedAllTimeIsBlocked() {
        Reading began = new Reading(1 * MS, null);
        assertEquals(4 * MS, new Reading(5 * MS, null).blockedNanosSince(began));
        assertEquals(4 * MS, new Reading(5 * MS, new Schedstat(MS, MS, 1)).blockedNanosSince(began));
    }

    @Test
    void whoLosesItsCpuEachTimeGivesUp() {
        read(new long[0], new long[] {MS, MS, MS, MS, MS, MS});
        assertEquals(3, nrReadings);
    }
}
