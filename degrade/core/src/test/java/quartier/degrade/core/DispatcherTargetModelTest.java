package quartier.degrade.core;

import static quartier.degrade.core.Simulation.classFor;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.jetbrains.lincheck.datastructures.Operation;
import org.junit.jupiter.api.Test;
import quartier.degrade.core.policy.Curve;
import quartier.degrade.core.policy.Target;

/**
 * The same under a policy that keeps one of two permits for a class, because it has missed its target by far: others run
 * one at a time, and nobody is asleep for good.
 */
public class DispatcherTargetModelTest {
    private static final long MS = 1_000_000;
    private static final Request OWN = Simulation.requestOf("own");
    private static final Request OTHER = Simulation.requestOf("other");
    /** So long that the policy looks how its class does. */
    private static final long STEP_NANOS = 600 * MS;
    /** So long that a turn is over, and so short that the class is not taken for away after all ticks of a scenario. */
    private static final long TICK_NANOS = 20 * MS;

    private final AtomicLong nowNanos = new AtomicLong(1);
    private final Dispatcher dispatcher = new Dispatcher(
            new Settings(
                    2,
                    MS,
                    1000 * MS,
                    Settings.Mode.ON,
                    () -> Target.curve("own", "other", Curve.level(MS)),
                    List.of(classFor("own"), classFor("other"))),
            nowNanos::get,
            asked -> {});
    /** Of the others. Not guarded by anything but their permit. */
    private int nrInside;

    /** One request of each class, of which the policy's own takes hundreds of times as long as it may. */
    public DispatcherTargetModelTest() {
        Job own = dispatcher.enter(OWN, 0);
        Job other = dispatcher.enter(OTHER, 0);
        dispatcher.tick(Simulation.BUSY);
        nowNanos.addAndGet(STEP_NANOS);
        dispatcher.leave(own);
        dispatcher.tick(Simulation.BUSY);
        dispatcher.leave(other);
    }

    /** Returns whether no other one ran whenever it did. */
    @Operation
    public boolean other() {
        Job job = dispatcher.enter(OTHER, 0);
        boolean alone = inside();
        dispatcher.point(job, true);
        alone &= inside();
        dispatcher.leave(job);
        return alone;
    }

    /** Returns whether it has run with a permit. */
    @Operation
    public boolean own() {
        Job job = dispatcher.enter(OWN, 0);
        boolean permitted = job.state() == Job.State.RUNNING;
        dispatcher.point(job, true);
        dispatcher.leave(job);
        return permitted && job.state() == Job.State.DONE;
    }

    private boolean inside() {
        nrInside++;
        boolean alone = nrInside == 1;
        nrInside--;
        return alone;
    }

    @Operation
    public void tick() {
        nowNanos.addAndGet(TICK_NANOS);
        dispatcher.tick(Simulation.BUSY);
    }

    @Test
    void noInterleavingBreaksIt() {
        DispatcherModelTest.check(getClass(), 50);
    }
}
