package quartier.degrade.agent;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import quartier.degrade.gate.Look;

/**
 * Looks whether code that no profile has seen has got hot: a service that nobody asked for at first keeps all its points, and
 * some code runs half as long again with them. A look costs each thread some ten microseconds.
 */
final class PointWatch {
    private static final long PERIOD_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(5);
    /** One look may have met what runs once, at a start. */
    private static final int FOUND_MIN = 5;

    private final Predicate<Look.Place> isUnseen;
    private final Runnable done;
    private final OwnThread thread = new OwnThread(this::run, "looks");

    /** @param done what to do once such code has been found often enough; nobody looks any more */
    PointWatch(Predicate<Look.Place> isUnseen, Runnable done) {
        this.isUnseen = isUnseen;
        this.done = done;
    }

    void start() {
        thread.start();
    }

    void stop() {
        thread.tellToEnd();
    }

    private void run() {
        int nrFound = 0;
        while (!thread.isToldToEnd() && nrFound < FOUND_MIN) {
            LockSupport.parkNanos(this, PERIOD_NANOS);
            Look.take();
            LockSupport.parkNanos(this, LOOK_NANOS);
            Look.Place place = Look.end();
            if (place != null && isUnseen.test(place)) {
                nrFound++;
            }
        }
        if (!thread.isToldToEnd()) {
            done.run();
        }
    }
}
