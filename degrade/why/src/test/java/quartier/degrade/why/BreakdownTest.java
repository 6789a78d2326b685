package quartier.degrade.why;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quartier.degrade.why.Breakdown.Kind;
import quartier.degrade.why.Breakdown.Request;
import quartier.degrade.why.Breakdown.Row;
import quartier.degrade.why.Breakdown.Span;

class BreakdownTest {
    private static Row row(List<Request> requests, Span... spans) {
        List<Row> rows = Breakdown.of(requests, List.of(spans));
        assertEquals(1, rows.size());
        return rows.get(0);
    }

    private static Request request(long begin, long end, long cpu, long runQueue, long yield) {
        return new Request("light", 1, begin, end, cpu, runQueue, 2, yield);
    }

    @Test
    void everyMomentIsSomewhere() {
        Row row = row(
                List.of(request(1000, 2000, 300, 100, 150)),
                new Span(Kind.LOCK, 1, 1100, 1200),
                new Span(Kind.IO, 1, 1300, 1350),
                new Span(Kind.WAIT, 1, 1990, 2500),
                new Span(Kind.LOCK, 1, 500, 900),
                new Span(Kind.LOCK, 2, 1400, 1900));
        assertEquals(new Row("light", 1, true, 1000, 300, 100, 2, 1, 100, 50, 10, 150, 290), row);
    }

    @Test
    void ofSpansWithinEachOtherTheOuterOneCounts() {
        Row row = row(
                List.of(request(0, 1000, 100, 0, 0)),
                new Span(Kind.WAIT, 1, 150, 250),
                new Span(Kind.IO, 1, 100, 500),
                new Span(Kind.WAIT, 1, 400, 600));
        assertEquals(400, row.ioNanos());
        assertEquals(100, row.waitNanos());
        assertEquals(400, row.otherNanos());
    }

    @Test
    void aWaitForACpuIsNotCountedTwice() {
        Row row = row(List.of(request(0, 1000, 500, 300, 0)), new Span(Kind.LOCK, 1, 100, 500), new Span(Kind.IO, 1, 600, 700));
        assertEquals(160, row.lockNanos());
        assertEquals(40, row.ioNanos());
        assertEquals(0, row.otherNanos());
    }

    @Test
    void whatTheKernelDoesNotSayIsNotKnown() {
        Request unknown = new Request("light", 1, 0, 1000, -1, -1, -1, 70);
        Row row = row(List.of(unknown), new Span(Kind.LOCK, 1, 0, 400));
        assertEquals(new Row("light", 1, false, 1000, 0, 0, 0, 1, 400, 0, 0, 70, 0), row);
        assertEquals(1, row(List.of(unknown, request(0, 10, 5, 0, 0))).nrRequests(), "the two are not mixed");
        assertNull(Schedstat.parse("1 2"));
        assertNull(Schedstat.parse(""));
        assertNull(Schedstat.parse("0 0 0"), "that kernel counts nothing");
        assertEquals(new Schedstat(1, 2, 3), Schedstat.parse("1 2 3\n"));
    }

    /** Whatever the spans are: the parts of requests that the kernel knows come to their whole time. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6})
    void theParts(long seed) {
        Random random = new Random(seed);
        List<Request> requests = new ArrayList<>();
        List<Span> spans = new ArrayList<>();
        for (int at = 0; at < 200; at++) {
            long begin = at * 1000L;
            long cpu = random.nextInt(400);
            long runQueue = random.nextInt(300);
            requests.add(new Request("c" + at % 3, at % 5, begin, begin + 1000, cpu, runQueue, 1, random.nextInt(300)));
            for (int span = random.nextInt(5); span > 0; span--) {
                long from = begin + random.nextInt(1000);
                spans.add(new Span(Kind.values()[random.nextInt(3)], random.nextInt(5), from, from + random.nextInt(900)));
            }
        }
        for (Row row : Breakdown.of(requests, spans)) {
            long sum = row.cpuNanos() + row.runQueueNanos() + row.yieldNanos() + row.lockNanos() + row.ioNanos()
                    + row.waitNanos() + row.otherNanos();
            // What is shortened loses the fraction of a nanosecond.
            assertTrue(sum <= row.wallNanos() && sum >= row.wallNanos() - 3 * row.nrRequests(), "seed " + seed + ": " + row);
        }
    }
}
