package quartier.degrade.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The control groups that this process is in (cgroups(7)), as far as they count how often they were throttled. */
final class ControlGroups {
    private static final String COUNTS = "cpu.stat";
    /** Of version 1: where distributions mount this controller. */
    private static final List<String> CPU_MOUNTS = List.of("cpu,cpuacct", "cpu");

    private ControlGroups() {}

    /** The counts of its group and of those above it: each may have a quota. None where nothing can be read. */
    static List<Path> ofSelf(Path proc, Path mount) {
        List<Path> counts = new ArrayList<>();
        try {
            for (String line : Files.readAllLines(proc.resolve("self/cgroup"))) {
                String[] parts = line.split(":", 3);
                if (parts.length < 3) {
                    continue;
                }
                if (parts[1].isEmpty()) {
                    addUpwards(counts, mount, parts[2]);
                } else if (List.of(parts[1].split(",")).contains("cpu")) {
                    CPU_MOUNTS.forEach(name -> addUpwards(counts, mount.resolve(name), parts[2]));
                }
            }
        } catch (IOException | RuntimeException unknown) {
            return List.of();
        }
        return List.copyOf(counts);
    }

    /** In a container the groups above may not be there, or this one be the mount itself. */
    private static void addUpwards(List<Path> counts, Path mount, String group) {
        Path top = mount.normalize();
        Path at = top.resolve(group.replaceFirst("^/+", "")).normalize();
        while (at != null && at.startsWith(top)) {
            Path file = at.resolve(COUNTS);
            if (Files.isReadable(file) && !counts.contains(file)) {
                counts.add(file);
            }
            at = at.getParent();
        }
    }
}
