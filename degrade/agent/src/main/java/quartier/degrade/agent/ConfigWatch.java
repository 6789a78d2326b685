package quartier.degrade.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** Has the file read again when it was written. One that changed since the last look may be half written: not yet. */
final class ConfigWatch {
    private static final long LOOK_NANOS = 250_000_000;

    private final Path file;
    private final BooleanSupplier reload;
    private final Runnable alsoLook;
    private final OwnThread thread = new OwnThread(this::run, "config");
    private final AtomicLong nrReloads = new AtomicLong();
    private final AtomicLong nrRefused = new AtomicLong();
    private Object seen;

    /**
     * @param file null for none; then this is not started
     * @param alsoLook what else is to be done now and then
     */
    ConfigWatch(Path file, BooleanSupplier reload, Runnable alsoLook) {
        this.file = file;
        this.reload = reload;
        this.alsoLook = alsoLook;
        this.seen = file == null ? "no file" : stamp();
    }

    void start() {
        thread.start();
    }

    void stop() {
        thread.tellToEnd();
    }

    private void run() {
        Object last = seen;
        while (!thread.isToldToEnd()) {
            Object now = stamp();
            boolean settled = now.equals(last);
            last = now;
            if (settled && !now.equals(seen)) {
                seen = now;
                (reload.getAsBoolean() ? nrReloads : nrRefused).incrementAndGet();
            }
            alsoLook.run();
            LockSupport.parkNanos(this, LOOK_NANOS);
        }
    }

    /** What is written anew is later, or longer, or another file under the same name. */
    private Object stamp() {
        try {
            return Files.readAttributes(file, "unix:lastModifiedTime,size,ino");
        } catch (IOException | UnsupportedOperationException gone) {
            return "not there";
        }
    }

    long nrReloads() {
        return nrReloads.get();
    }

    long nrRefused() {
        return nrRefused.get();
    }
}
