package quartier.degrade.core;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.jetbrains.lincheck.datastructures.ModelCheckingOptions;
import org.jetbrains.lincheck.datastructures.Operation;
import org.junit.jupiter.api.Test;
import quartier.degrade.core.policy.Fair;

/** Lincheck tries the interleavings of a few threads at every shared access: one permit, and nobody asleep for good. */
public class DispatcherModelTest {
    private static final long MS = 1_000_000;
    private static final Request REQUEST = Simulation.requestOf("a");
    private final AtomicLong nowNanos = new AtomicLong(1);
    private final Dispatcher dispatcher = new Dispatcher(
            new Settings(1, MS, 1000 * MS, Settings.Mode.ON, Fair::new, List.of(WorkClass.plain("a"))),
            nowNanos::get,
            asked -> {});
    /** Not guarded by anything but the permit. */
    private int nrInside;

    /** A request that passes a point on its way. Returns whether it was alone whenever it ran. */
    @Operation
    public boolean request() {
        Job job = dispatcher.enter(REQUEST, 0);
        boolean alone = inside();
        dispatcher.point(job, true);
        alone &= inside();
        dispatcher.leave(job);
        return alone;
    }

    /** A request that its thread leaves, and comes back to. */
    @Operation
    public boolean requestThatGoesAway() {
        Job job = dispatcher.enter(REQUEST, 0);
        boolean alone = inside();
        dispatcher.depart(job);
        Job again = dispatcher.resume(job, 0);
        alone &= inside();
        dispatcher.complete(job);
        dispatcher.depart(again);
        return alone && job.state() == Job.State.DONE;
    }

    private boolean inside() {
        nrInside++;
        boolean alone = nrInside == 1;
        nrInside--;
        return alone;
    }

    @Operation
    public void tick() {
        nowNanos.addAndGet(2 * MS);
        dispatcher.tick(Simulation.BUSY);
    }

    @Test
    void noInterleavingBreaksIt() {
        check(getClass(), 120);
    }

    /** Of two threads, so many interleavings of each of some scenarios. */
    static void check(Class<?> operations, int nrInterleavings) {
        new ModelCheckingOptions()
                .iterations(4)
                .threads(2)
                .actorsPerThread(2)
                .actorsBefore(0)
                .actorsAfter(0)
                .invocationsPerIteration(nrInterleavings)
                .check(operations);
    }
}
