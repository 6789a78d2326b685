package quartier.degrade.agent;

import java.io.FileInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import quartier.degrade.core.VirtualThreads;

/** What the kernel calls a thread, and what it says of it. Java knows neither. */
final class KernelThreads {
    private static final Path SELF = Path.of("/proc/thread-self");
    private static final ThreadLocal<Long> NUMBERS = ThreadLocal.withInitial(KernelThreads::ask);

    private KernelThreads() {}

    /** The number of this thread, or 0 where it has none of its own. */
    static long current() {
        return VirtualThreads.isVirtual(Thread.currentThread()) ? 0 : NUMBERS.get();
    }

    private static long ask() {
        try {
            return Long.parseLong(Files.readSymbolicLink(SELF).getFileName().toString());
        } catch (IOException | NumberFormatException | SecurityException unknown) {
            return 0;
        }
    }

    /** The state of a thread of this process as one letter, or '?' where the kernel does not say. */
    static char state(long number) {
        byte[] text = new byte[256];
        try (FileInputStream stat = new FileInputStream("/proc/self/task/" + number + "/stat")) {
            int length = stat.read(text);
            // The name before it is in brackets, and may have brackets and spaces in it.
            String line = new String(text, 0, Math.max(length, 0), StandardCharsets.ISO_8859_1);
            int at = line.lastIndexOf(')') + 2;
            return at >= 2 && at < line.length() ? line.charAt(at) : '?';
        } catch (IOException gone) {
            return '?';
        }
    }
}
