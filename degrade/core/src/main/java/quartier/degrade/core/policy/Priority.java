package quartier.degrade.core.policy;

import java.util.List;
import quartier.degrade.core.RunQueue;

/** The greatest priority first; waiting raises it by one per so much time, so nobody starves. */
public final class Priority implements Policy {
    private final double ageingNanos;

    public Priority(long ageingNanos) {
        this.ageingNanos = ageingNanos;
    }

    @Override
    public RunQueue next(List<RunQueue> waiting, long nowNanos) {
        RunQueue first = waiting.get(0);
        for (RunQueue queue : waiting) {
            if (priority(queue, nowNanos) > priority(first, nowNanos)) {
                first = queue;
            }
        }
        return first;
    }

    /** Each has an age of its own: who waits behind one that goes on would get older than all of the greatest priority. */
    @Override
    public int nrSlicesInTurn() {
        return 1;
    }

    /** Nobody who comes may go before those of the greatest priority. Before all others somebody may, and at once. */
    @Override
    public int nrFreeMax(RunQueue alone, List<RunQueue> all, int nrPermits) {
        for (RunQueue queue : all) {
            if (queue.workClass().priority() > alone.workClass().priority()) {
                return 0;
            }
        }
        return Integer.MAX_VALUE;
    }

    private double priority(RunQueue queue, long nowNanos) {
        return queue.workClass().priority() + (nowNanos - queue.headSinceNanos()) / ageingNanos;
    }
}
