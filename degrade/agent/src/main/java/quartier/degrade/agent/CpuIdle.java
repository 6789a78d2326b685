package quartier.degrade.agent;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;

/**
 * How idle the CPUs are that this process may use: by the kernel's count of each (proc_stat(5), idle and iowait), and, where a quota or
 * the JVM's own option leaves it fewer, not more than these would be. Whoever was throttled had nothing idle, whatever the CPUs were.
 */
final class CpuIdle {
    /** USER_HZ, in which /proc counts on every machine with a JVM. */
    private static final long TICK_NANOS = 10_000_000;
    /** A look so long ago says nothing about now. */
    private static final long STALE_NANOS = 2 * ThreadProbe.LOOK_NANOS;

    private static final int USER_AT = 11;
    private static final int SYSTEM_AT = 12;
    private static final int IDLE_AT = 4;
    private static final int IO_WAIT_AT = 5;

    /** What has been counted since some beginning. */
    private record Counted(long idleNanos, BitSet cpus, long usedNanos, long nrThrottled) {}

    private final Path proc;
    private final Path controlGroups;
    private List<Path> throttleCounts;
    private Counted counted;

    CpuIdle(Path proc, Path controlGroups) {
        this.proc = proc;
        this.controlGroups = controlGroups;
        this.throttleCounts = ControlGroups.ofSelf(proc, controlGroups);
    }

    static CpuIdle ofThisMachine() {
        return new CpuIdle(Path.of("/proc"), Path.of("/sys/fs/cgroup"));
    }

    /** The part of their time since it was last asked, so long ago; NaN if that is not known. Reads files: under no lock. */
    double part(long forNanos, int nrCpusOfJvm) {
        Counted before = counted;
        counted = count();
        boolean isKnown = before != null && counted != null && forNanos <= STALE_NANOS;
        return isKnown ? part(before, counted, forNanos, nrCpusOfJvm) : Double.NaN;
    }

    private static double part(Counted before, Counted now, long forNanos, int nrCpusOfJvm) {
        if (!now.cpus.equals(before.cpus)) {
            return Double.NaN;
        }
        if (now.nrThrottled > before.nrThrottled) {
            return 0;
        }
        int nrCpus = Math.min(now.cpus.cardinality(), nrCpusOfJvm);
        double allNanos = (double) nrCpus * forNanos;
        double unusedNanos = allNanos - (now.usedNanos - before.usedNanos);
        double idleNanos = Math.min(now.idleNanos - before.idleNanos, unusedNanos);
        return Math.min(Math.max(idleNanos / allNanos, 0), 1);
    }

    /** Null where the kernel does not say. */
    private Counted count() {
        try {
            BitSet allowed = allowed();
            BitSet cpus = new BitSet();
            long idleTicks = 0;
            for (String line : lines("stat")) {
                // The first line is of all CPUs together; each that is online has one of its own.
                if (!line.startsWith("cpu") || line.startsWith("cpu ")) {
                    continue;
                }
                String[] fields = line.split(" ");
                int cpu = Integer.parseInt(fields[0].substring("cpu".length()));
                if (allowed.get(cpu)) {
                    idleTicks += Long.parseLong(fields[IDLE_AT]) + Long.parseLong(fields[IO_WAIT_AT]);
                    cpus.set(cpu);
                }
            }
            return cpus.isEmpty() ? null : new Counted(idleTicks * TICK_NANOS, cpus, usedNanos(), nrThrottled());
        } catch (IOException | RuntimeException unknown) {
            // A group may have gone, or we from it.
            throttleCounts = ControlGroups.ofSelf(proc, controlGroups);
            return null;
        }
    }

    private List<String> lines(String file) throws IOException {
        return Files.readAllLines(proc.resolve(file), StandardCharsets.ISO_8859_1);
    }

    /** The CPUs on which the kernel lets this process run; also ones that are not there. */
    private BitSet allowed() throws IOException {
        String prefix = "Cpus_allowed_list:";
        for (String line : lines("self/status")) {
            if (line.startsWith(prefix)) {
                return cpuList(line.substring(prefix.length()).trim());
            }
        }
        throw new IOException("no " + prefix);
    }

    /** As the kernel writes it: {@code 0-3,8}. */
    static BitSet cpuList(String text) {
        BitSet cpus = new BitSet();
        for (String range : text.split(",")) {
            String[] ends = range.split("-");
            cpus.set(Integer.parseInt(ends[0]), Integer.parseInt(ends[ends.length - 1]) + 1);
        }
        return cpus;
    }

    private long usedNanos() throws IOException {
        String line = lines("self/stat").get(0);
        // The name before it is in brackets, and may have brackets and spaces in it.
        String[] fields = line.substring(line.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(fields[USER_AT]) + Long.parseLong(fields[SYSTEM_AT])) * TICK_NANOS;
    }

    private long nrThrottled() throws IOException {
        long nr = 0;
        for (Path counts : throttleCounts) {
            for (String line : Files.readAllLines(counts)) {
                if (line.startsWith("nr_throttled ")) {
                    nr += Long.parseLong(line.substring(line.indexOf(' ') + 1).trim());
                }
            }
        }
        return nr;
    }
}
