package trial;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** JDKs on this machine: the one that tests are told to use or run on, those beside it, and those that were fetched. */
final class Jdks {
    private static final int FIRST_WITH_VIRTUAL_THREADS = 21;
    /** By xtask/deps.sh. */
    private static final Path FETCHED = Path.of("..", "..", "target", "jdks");
    private static final Pattern VERSION = Pattern.compile("JAVA_VERSION=\"(\\d+)");

    private Jdks() {}

    /** One of each version, the oldest first; none is possible. */
    static List<Path> withVirtualThreads() throws IOException {
        Path own = Path.of(System.getProperty("trial.java.home", System.getProperty("java.home")));
        NavigableMap<Integer, Path> found = new TreeMap<>();
        for (Path folder : List.of(own.toRealPath().getParent(), FETCHED)) {
            if (Files.isDirectory(folder)) {
                try (Stream<Path> homes = Files.list(folder)) {
                    homes.sorted().forEach(home -> found.putIfAbsent(version(home), home));
                }
            }
        }
        found.put(version(own), own);
        return List.copyOf(found.tailMap(FIRST_WITH_VIRTUAL_THREADS, true).values());
    }

    /** 0 where there is none. */
    static int version(Path home) {
        try {
            Matcher version = VERSION.matcher(Files.readString(home.resolve("release")));
            return version.find() ? Integer.parseInt(version.group(1)) : 0;
        } catch (IOException none) {
            return 0;
        }
    }
}
