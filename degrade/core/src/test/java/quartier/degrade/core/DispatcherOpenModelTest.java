package quartier.degrade.core;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.jetbrains.lincheck.datastructures.Operation;
import org.junit.jupiter.api.Test;
import quartier.degrade.core.policy.Fair;

/** The same while somebody switches it off and on: every request ends, whoever waited then. */
public class DispatcherOpenModelTest {
    private static final long MS = 1_000_000;
    private static final Request REQUEST = Simulation.requestOf("a");
    private static final Settings ON =
            new Settings(1, MS, 1000 * MS, Settings.Mode.ON, Fair::new, List.of(WorkClass.plain("a")));
    private final AtomicLong nowNanos = new AtomicLong(1);
    private final Dispatcher dispatcher = new Dispatcher(ON, nowNanos::get, asked -> {});

    @Operation
    public boolean request() {
        Job job = dispatcher.enter(REQUEST, 0);
        dispatcher.point(job, true);
        dispatcher.leave(job);
        return job.state() == Job.State.DONE;
    }

    /** A controller that was late comes back with {@link #tick}. */
    @Operation
    public void open() {
        dispatcher.open();
    }

    @Operation
    public void switchOffAndOn() {
        dispatcher.configure(ON.withMode(Settings.Mode.OFF));
        dispatcher.configure(ON);
    }

    @Operation
    public void tick() {
        nowNanos.addAndGet(2 * MS);
        dispatcher.tick(Simulation.BUSY);
    }

    @Test
    void noInterleavingBreaksIt() {
        DispatcherModelTest.check(getClass(), 100);
    }
}
