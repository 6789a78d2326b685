package quartier.degrade.why;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedClass;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import quartier.degrade.why.Breakdown.Kind;
import quartier.degrade.why.Breakdown.Request;
import quartier.degrade.why.Breakdown.Span;

/** Has the JVM record for some seconds what its threads are blocked by, and reads that beside the requests. */
public final class Recorder {
    /** What is shorter happens often, and does not come to much. */
    private static final Duration THRESHOLD = Duration.ofNanos(10_000);
    private static final long RECORDING_BYTES_MAX = 256L << 20;
    private static final String PARK = "jdk.ThreadPark";
    private static final Map<String, Kind> KINDS = Map.of(
            "jdk.JavaMonitorEnter", Kind.LOCK,
            PARK, Kind.WAIT,
            "jdk.JavaMonitorWait", Kind.WAIT,
            "jdk.ThreadSleep", Kind.WAIT,
            "jdk.SocketRead", Kind.IO,
            "jdk.SocketWrite", Kind.IO,
            "jdk.FileRead", Kind.IO,
            "jdk.FileWrite", Kind.IO,
            "jdk.FileForce", Kind.IO);
    private static final List<String> LOCKS =
            List.of("java.util.concurrent.locks.ReentrantLock$", "java.util.concurrent.locks.ReentrantReadWriteLock$",
                    "java.util.concurrent.locks.StampedLock");
    /** Where our own gate parks threads: it has counted that itself. */
    private static final String GATE = "quartier.degrade.";

    private final List<Request> requests = new ArrayList<>();
    private final List<Served> served = new ArrayList<>();
    private final List<Span> spans = new ArrayList<>();

    /** A thread, by the kernel's number, served a request from here to there on the monotonic clock. */
    public record Served(String className, long kernelThread, long fromNanos, long toNanos) {}

    /** @param served as the requests ended */
    public record Recorded(List<Breakdown.Row> rows, List<Served> served) {}

    private Recorder() {}

    /** Whether this JVM can. */
    public static boolean isThere() {
        return ModuleLayer.boot().findModule("jdk.jfr").isPresent();
    }

    /** @param during what is done meanwhile: wait */
    public static Recorded record(Runnable during) throws IOException {
        Path file = Files.createTempFile("quartier-degrade", ".jfr");
        try (Recording recording = new Recording()) {
            recording.setName("quartier degrade why");
            recording.setMaxSize(RECORDING_BYTES_MAX);
            KINDS.keySet().forEach(name -> recording.enable(name)
                    .withThreshold(THRESHOLD).withoutStackTrace().with("throttle", "off"));
            recording.enable(RequestEvent.class).withoutThreshold().withoutStackTrace();
            recording.start();
            during.run();
            recording.stop();
            recording.dump(file);
            Recorder recorder = new Recorder();
            recorder.read(file);
            return new Recorded(Breakdown.of(recorder.requests, recorder.spans), recorder.served);
        } finally {
            Files.deleteIfExists(file);
        }
    }

    private void read(Path file) throws IOException {
        try (RecordingFile events = new RecordingFile(file)) {
            while (events.hasMoreEvents()) {
                add(events.readEvent());
            }
        }
    }

    private void add(RecordedEvent event) {
        if (event.getThread() == null) {
            return;
        }
        long thread = event.getThread().getJavaThreadId();
        long beginNanos = nanos(event.getStartTime());
        long endNanos = nanos(event.getEndTime());
        String name = event.getEventType().getName();
        if (name.equals(RequestEvent.NAME)) {
            String className = event.getString("workClass");
            requests.add(new Request(className, thread, beginNanos, endNanos, event.getLong("cpu"),
                    event.getLong("runQueue"), event.getLong("slices"), event.getLong("held")));
            long kernelThread = event.getLong("kernelThread");
            if (kernelThread != 0) {
                served.add(new Served(className, kernelThread, event.getLong("from"), event.getLong("to")));
            }
            return;
        }
        Kind kind = name.equals(PARK) ? parked(event) : KINDS.get(name);
        if (kind != null) {
            spans.add(new Span(kind, thread, beginNanos, endNanos));
        }
    }

    /** What a thread is parked by says what it waits for. */
    private static Kind parked(RecordedEvent event) {
        RecordedClass by = event.getClass("parkedClass");
        if (by == null) {
            return Kind.WAIT;
        }
        if (by.getName().startsWith(GATE)) {
            return null;
        }
        return LOCKS.stream().anyMatch(by.getName()::startsWith) ? Kind.LOCK : Kind.WAIT;
    }

    private static long nanos(Instant instant) {
        return instant.getEpochSecond() * 1_000_000_000L + instant.getNano();
    }
}
