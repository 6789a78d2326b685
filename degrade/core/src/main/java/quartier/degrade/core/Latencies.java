package quartier.degrade.core;

import java.util.Arrays;
import java.util.OptionalLong;

/** The latencies of a class: the latest ones as they were, and how many of about which length there were in each of the last seconds. */
public final class Latencies {
    private static final int KEPT = 512;
    /** What a report is about. */
    static final int WINDOW_SECONDS = 10;
    private static final long SECOND_NANOS = 1_000_000_000;

    private final long[] nanos = new long[KEPT];
    private long nr;

    private final Histogram[] seconds = new Histogram[WINDOW_SECONDS];
    private long second = Long.MIN_VALUE;

    /** Each octave has so many buckets, so a length is known to 1 in 64 of itself. The first ones are a microsecond each. */
    private static final class Histogram {
        private static final int OCTAVE_BITS = 6;
        private static final int BUCKETS_OF_OCTAVE = 1 << OCTAVE_BITS;
        private static final int NR_OCTAVES = 26;
        private static final int MICROSECOND_BITS = 10;
        private final int[] buckets = new int[NR_OCTAVES * BUCKETS_OF_OCTAVE];
        /** There is nothing outside. */
        private int first = buckets.length;
        private int last = -1;

        void add(long nanos) {
            int bucket = bucket(nanos);
            buckets[bucket]++;
            first = Math.min(first, bucket);
            last = Math.max(last, bucket);
        }

        /** Adds what it counts to these, and gives how much that is. */
        long addTo(int[] all) {
            long nr = 0;
            for (int bucket = first; bucket <= last; bucket++) {
                all[bucket] += buckets[bucket];
                nr += buckets[bucket];
            }
            return nr;
        }

        static int bucket(long nanos) {
            long units = Math.max(nanos, 0) >> MICROSECOND_BITS;
            int octave = Math.max(0, Long.SIZE - Long.numberOfLeadingZeros(units) - OCTAVE_BITS - 1);
            int bucket = octave * BUCKETS_OF_OCTAVE + (int) Math.min(units >> octave, 2L * BUCKETS_OF_OCTAVE - 1);
            return Math.min(bucket, NR_OCTAVES * BUCKETS_OF_OCTAVE - 1);
        }

        /** The middle of what is in it. */
        static long nanos(int bucket) {
            int octave = Math.max(0, bucket / BUCKETS_OF_OCTAVE - 1);
            long units = bucket - (long) octave * BUCKETS_OF_OCTAVE;
            return ((units << octave) << MICROSECOND_BITS) + (1L << octave + MICROSECOND_BITS) / 2;
        }
    }

    void add(long latencyNanos, long nowNanos) {
        nanos[(int) (nr % KEPT)] = latencyNanos;
        nr++;
        moveTo(Math.floorDiv(nowNanos, SECOND_NANOS));
        int slot = slot(second);
        if (seconds[slot] == null) {
            seconds[slot] = new Histogram();
        }
        seconds[slot].add(latencyNanos);
    }

    private static int slot(long second) {
        return (int) Math.floorMod(second, (long) WINDOW_SECONDS);
    }

    /** Forgets what is older than the window. */
    private void moveTo(long newSecond) {
        if (second == Long.MIN_VALUE || newSecond - second >= WINDOW_SECONDS) {
            Arrays.fill(seconds, null);
            second = newSecond;
        }
        while (second < newSecond) {
            second++;
            seconds[slot(second)] = null;
        }
    }

    /** How many there have been. */
    public long nr() {
        return nr;
    }

    /** A quantile of those that came after so many, as far as they are kept; absent if there are none. */
    public OptionalLong quantileAfter(double quantile, long nrBefore) {
        long[] chosen = after(nrBefore);
        if (chosen.length == 0) {
            return OptionalLong.empty();
        }
        Arrays.sort(chosen);
        int rank = (int) Math.ceil(quantile * chosen.length);
        return OptionalLong.of(chosen[Math.max(rank, 1) - 1]);
    }

    /** The part of those that came after so many, as far as they are kept, that took longer; NaN if there are none. */
    public double partAbove(long boundNanos, long nrBefore) {
        long[] chosen = after(nrBefore);
        return (double) Arrays.stream(chosen).filter(each -> each > boundNanos).count() / chosen.length;
    }

    private long[] after(long nrBefore) {
        int nrChosen = (int) Math.min(nr - nrBefore, KEPT);
        long[] chosen = new long[nrChosen];
        for (int at = 0; at < nrChosen; at++) {
            chosen[at] = nanos[(int) ((nr - 1 - at) % KEPT)];
        }
        return chosen;
    }

    /** Quantiles of the last ten seconds, in the order in which they are asked for, which is ascending; absent if there were none. */
    OptionalLong[] quantiles(long nowNanos, double... quantiles) {
        OptionalLong[] found = new OptionalLong[quantiles.length];
        Arrays.fill(found, OptionalLong.empty());
        if (nr == 0) {
            return found;
        }
        moveTo(Math.max(second, Math.floorDiv(nowNanos, SECOND_NANOS)));
        int[] all = new int[Histogram.NR_OCTAVES * Histogram.BUCKETS_OF_OCTAVE];
        long nrAll = 0;
        for (Histogram each : seconds) {
            nrAll += each == null ? 0 : each.addTo(all);
        }
        int bucket = 0;
        long nrBelow = 0;
        for (int at = 0; at < quantiles.length && nrAll > 0; at++) {
            long rank = Math.max(1, (long) Math.ceil(quantiles[at] * nrAll));
            while (nrBelow + all[bucket] < rank) {
                nrBelow += all[bucket++];
            }
            found[at] = OptionalLong.of(Histogram.nanos(bucket));
        }
        return found;
    }
}
