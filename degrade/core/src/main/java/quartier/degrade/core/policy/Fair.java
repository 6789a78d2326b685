package quartier.degrade.core.policy;

import java.util.List;
import quartier.degrade.core.RunQueue;

/** Between requests, whatever their class: round robin. */
public final class Fair implements Policy {
    @Override
    public RunQueue next(List<RunQueue> waiting, long nowNanos) {
        RunQueue first = waiting.get(0);
        for (RunQueue queue : waiting) {
            if (queue.headSinceNanos() - first.headSinceNanos() < 0) {
                first = queue;
            }
        }
        return first;
    }

    /** Between requests, not classes. */
    @Override
    public int nrSlicesInTurn() {
        return 1;
    }

    @Override
    public int nrFreeMax(RunQueue alone, List<RunQueue> all, int nrPermits) {
        return 0;
    }
}
