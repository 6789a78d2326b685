package trial;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;

/** A control group (cgroups(7)) whose processes together get the time of one CPU, as a container's do. */
final class OneCpuGroup implements AutoCloseable {
    private static final Path MOUNT = Path.of("/sys/fs/cgroup");
    private static final String PERIOD_MICROS = "100000";
    /** What is written into a group's files, in this order: version 2, and 1. */
    private static final List<Map.Entry<String, String>> QUOTA = List.of(Map.entry("cpu.max", PERIOD_MICROS + " " + PERIOD_MICROS));
    private static final List<Map.Entry<String, String>> QUOTA_OF_FIRST =
            List.of(Map.entry("cpu.cfs_period_us", PERIOD_MICROS), Map.entry("cpu.cfs_quota_us", PERIOD_MICROS));

    private final Path folder;

    private OneCpuGroup(Path folder) {
        this.folder = folder;
        // As a second chance: whoever stops the tests stops their servers too.
        folder.toFile().deleteOnExit();
    }

    /** Below the group that this process is in, or one above it. Whoever may make none hears why. */
    static OneCpuGroup make() throws IOException {
        IOException whyNot = new IOException("no group of this process has CPUs to give");
        for (String line : Files.readAllLines(Path.of("/proc/self/cgroup"))) {
            String[] parts = line.split(":", 3);
            boolean isSecond = parts[1].isEmpty();
            if (!isSecond && !List.of(parts[1].split(",")).contains("cpu")) {
                continue;
            }
            Path own = MOUNT.resolve(parts[1]).resolve(parts[2].substring(1)).normalize();
            for (Path parent = own; parent.startsWith(MOUNT); parent = parent.getParent()) {
                try {
                    return makeIn(parent, isSecond ? QUOTA : QUOTA_OF_FIRST);
                } catch (IOException refused) {
                    whyNot = refused;
                }
            }
        }
        throw whyNot;
    }

    private static OneCpuGroup makeIn(Path parent, List<Map.Entry<String, String>> quota) throws IOException {
        if (!Files.exists(parent.resolve("cgroup.procs"))) {
            throw new IOException(parent + " is no control group");
        }
        OneCpuGroup group = new OneCpuGroup(Files.createDirectory(parent.resolve("quartier-trial-" + ProcessHandle.current().pid())));
        try {
            for (Map.Entry<String, String> each : quota) {
                Files.writeString(group.folder.resolve(each.getKey()), each.getValue(), StandardOpenOption.WRITE);
            }
            return group;
        } catch (IOException refused) {
            group.close();
            throw refused;
        }
    }

    /** What looks like a JDK of its own, and starts the other one's JVM in this group. */
    Path java(Path home) throws IOException {
        Path bin = Files.createDirectories(Files.createTempDirectory("in-group").resolve("bin"));
        Path script = bin.resolve("java");
        Files.writeString(script, "#!/bin/sh\necho $$ > '%s/cgroup.procs' && exec '%s/bin/java' \"$@\"\n".formatted(folder, home));
        script.toFile().setExecutable(true);
        for (Path each : List.of(bin.getParent(), bin, script)) {
            each.toFile().deleteOnExit();
        }
        return bin.getParent();
    }

    long nrThrottled() throws IOException {
        return Files.readAllLines(folder.resolve("cpu.stat")).stream()
                .filter(line -> line.startsWith("nr_throttled "))
                .mapToLong(line -> Long.parseLong(line.split(" ")[1]))
                .findFirst()
                .orElseThrow();
    }

    /** Its processes must have ended. */
    @Override
    public void close() throws IOException {
        Files.deleteIfExists(folder);
    }
}
