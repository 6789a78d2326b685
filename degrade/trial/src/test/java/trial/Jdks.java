package trial;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** JDKs on this machine: the one that tests are told to use or run on, and those beside it. */
final class Jdks {
    private static final int FIRST_WITH_VIRTUAL_THREADS = 21;
    private static final Pattern VERSION = Pattern.compile("JAVA_VERSION=\"(\\d+)");

    private Jdks() {}

    static Optional<Path> withVirtualThreads() throws IOException {
        Path own = Path.of(System.getProperty("trial.java.home", System.getProperty("java.home")));
        try (Stream<Path> beside = Files.list(own.toRealPath().getParent())) {
            return Stream.concat(Stream.of(own), beside.sorted())
                    .filter(home -> version(home) >= FIRST_WITH_VIRTUAL_THREADS)
                    .findFirst();
        }
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
