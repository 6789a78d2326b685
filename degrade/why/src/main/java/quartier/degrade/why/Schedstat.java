package quartier.degrade.why;

import java.io.FileInputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;

/**
 * What the kernel has counted of a thread.
 *
 * @param waitedNanos ready to run, and another ran
 * @param nrSlices how often it was given a CPU
 */
public record Schedstat(long cpuNanos, long waitedNanos, long nrSlices) {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final String OWN = "/proc/thread-self/schedstat";

    /** Of the calling thread; null where the kernel does not say. */
    static Schedstat own() {
        Schedstat read = ofLastTick();
        return read == null ? null : new Schedstat(THREADS.getCurrentThreadCpuTime(), read.waitedNanos, read.nrSlices);
    }

    /** The same, but for its CPU time, which is as old as the last tick of the kernel's clock. */
    public static Schedstat ofLastTick() {
        byte[] text = new byte[96];
        try (FileInputStream file = new FileInputStream(OWN)) {
            int length = file.read(text);
            return parse(new String(text, 0, Math.max(0, length), StandardCharsets.ISO_8859_1));
        } catch (IOException notThere) {
            return null;
        }
    }

    /** A kernel that counts nothing says 0 three times; whoever can ask has been given a CPU. */
    static Schedstat parse(String text) {
        String[] words = text.strip().split(" ");
        try {
            boolean isCounted = words.length >= 3 && Long.parseLong(words[2]) > 0;
            return isCounted ? new Schedstat(Long.parseLong(words[0]), Long.parseLong(words[1]), Long.parseLong(words[2])) : null;
        } catch (NumberFormatException another) {
            return null;
        }
    }
}
