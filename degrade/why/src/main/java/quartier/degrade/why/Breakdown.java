package quartier.degrade.why;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Where the time of requests went, by class.
 *
 * <p>The kernel says exactly how long a thread ran and how long it waited for a CPU; the gate, how long it was held. What
 * is left it was blocked elsewhere, and spans say where. A span lasts until the thread runs again, so it has a
 * wait for a CPU in it that the kernel counted already: where spans come to more than what is left, they are shortened.
 */
public final class Breakdown {
    /** What a thread was blocked by. */
    public enum Kind { LOCK, IO, WAIT }

    /** A thread was blocked from here to there. */
    public record Span(Kind kind, long thread, long beginNanos, long endNanos) {}

    /**
     * A request that has ended.
     *
     * @param cpuNanos -1 where the kernel did not say; then {@code runQueueNanos} and {@code nrSlices} are not known either
     * @param yieldNanos how long our gate held it
     */
    public record Request(
            String className,
            long thread,
            long beginNanos,
            long endNanos,
            long cpuNanos,
            long runQueueNanos,
            long nrSlices,
            long yieldNanos) {
        boolean isKnown() {
            return cpuNanos >= 0;
        }
    }

    /** Sums over the requests of a class. {@code nrLockWaits}: of 10 µs or more. {@code otherNanos}: blocked, and nobody said by what. */
    public record Row(
            String className,
            long nrRequests,
            boolean isKnown,
            long wallNanos,
            long cpuNanos,
            long runQueueNanos,
            long nrSlices,
            long nrLockWaits,
            long lockNanos,
            long ioNanos,
            long waitNanos,
            long yieldNanos,
            long otherNanos) {}

    private Breakdown() {}

    /** Of a class in which the kernel knows some requests, only those are counted. */
    public static List<Row> of(List<Request> requests, List<Span> spans) {
        Map<Long, List<Span>> byThread = new HashMap<>();
        spans.forEach(span -> byThread.computeIfAbsent(span.thread(), fresh -> new ArrayList<>()).add(span));
        byThread.values().forEach(each -> each.sort(Comparator.comparingLong(Span::beginNanos)));
        Map<String, List<Request>> byClass = new TreeMap<>();
        requests.forEach(request -> byClass.computeIfAbsent(request.className(), fresh -> new ArrayList<>()).add(request));
        List<Row> rows = new ArrayList<>();
        byClass.forEach((name, all) -> {
            List<Request> known = all.stream().filter(Request::isKnown).toList();
            Sum sum = new Sum();
            (known.isEmpty() ? all : known).forEach(request ->
                    sum.add(request, byThread.getOrDefault(request.thread(), List.of())));
            rows.add(sum.row(name, !known.isEmpty()));
        });
        return rows;
    }

    private static final class Sum {
        private long nr;
        private long wall;
        private long cpu;
        private long runQueue;
        private long slices;
        private long yielded;
        private long other;
        private long lockWaits;
        private final long[] blocked = new long[Kind.values().length];

        void add(Request request, List<Span> spans) {
            long wallNanos = request.endNanos() - request.beginNanos();
            nr++;
            wall += wallNanos;
            yielded += request.yieldNanos();
            long[] kinds = blockedIn(request, spans);
            if (request.isKnown()) {
                cpu += request.cpuNanos();
                runQueue += request.runQueueNanos();
                slices += request.nrSlices();
                long leftNanos = Math.max(0,
                        wallNanos - request.cpuNanos() - request.runQueueNanos() - request.yieldNanos());
                other += leftNanos - shorten(kinds, leftNanos);
            }
            for (int kind = 0; kind < kinds.length; kind++) {
                blocked[kind] += kinds[kind];
            }
        }

        /** Returns what the kinds come to then. */
        private static long shorten(long[] kinds, long mostNanos) {
            long sum = 0;
            for (long nanos : kinds) {
                sum += nanos;
            }
            if (sum <= mostNanos) {
                return sum;
            }
            for (int kind = 0; kind < kinds.length; kind++) {
                kinds[kind] = (long) ((double) kinds[kind] * mostNanos / sum);
            }
            return mostNanos;
        }

        /** Each moment once: of spans within each other the outer one counts. */
        private long[] blockedIn(Request request, List<Span> spans) {
            long[] nanos = new long[Kind.values().length];
            long untilNanos = request.beginNanos();
            for (int at = firstAfter(spans, request.beginNanos()); at < spans.size(); at++) {
                Span span = spans.get(at);
                if (span.beginNanos() >= request.endNanos()) {
                    break;
                }
                long from = Math.max(span.beginNanos(), untilNanos);
                long to = Math.min(span.endNanos(), request.endNanos());
                if (to > from) {
                    lockWaits += span.kind() == Kind.LOCK ? 1 : 0;
                    nanos[span.kind().ordinal()] += to - from;
                    untilNanos = to;
                }
            }
            return nanos;
        }

        private static int firstAfter(List<Span> spans, long beginNanos) {
            int low = 0;
            int high = spans.size();
            while (low < high) {
                int middle = (low + high) >>> 1;
                if (spans.get(middle).beginNanos() < beginNanos) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            return low;
        }

        Row row(String name, boolean isKnown) {
            return new Row(name, nr, isKnown, wall, cpu, runQueue, slices, lockWaits, blocked[Kind.LOCK.ordinal()],
                    blocked[Kind.IO.ordinal()], blocked[Kind.WAIT.ordinal()], yielded, other);
        }
    }
}
