package quartier.degrade.agent;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import quartier.degrade.core.Idle;
import quartier.degrade.core.Job;
import quartier.degrade.core.Probe;

/** What threads are doing: their CPU clocks, and where those stand still, the kernel's word. */
final class ThreadProbe implements Probe {
    /** Who ran for less of the time since the last look is looked at closely. */
    private static final double BUSY_PART = 0.25;
    /** A look so long ago says nothing about now. */
    private static final long STALE_NANOS = 20_000_000;
    /** To wake up and go back to sleep is not to run. */
    private static final long RUN_NANOS = 50_000;

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final CpuIdle cpuIdle = CpuIdle.ofThisMachine();
    private long lateNanos = -1;

    @Override
    public boolean wantsCpu(Job job) {
        long elapsedNanos = elapsedNanos(job);
        long usedNanos = usedNanos(job);
        if (elapsedNanos > STALE_NANOS || usedNanos >= elapsedNanos * BUSY_PART) {
            return true;
        }
        // Java calls a thread waiting until it has woken up; the kernel knows that it wants to.
        char state = job.kernelThread() == 0 ? '?' : KernelThreads.state(job.kernelThread());
        return state == '?' ? job.thread().getState() == Thread.State.RUNNABLE : state == 'R';
    }

    @Override
    public boolean hasRun(Job job) {
        elapsedNanos(job);
        if (job.kernelThread() == 0) {
            return job.thread().getState() == Thread.State.RUNNABLE;
        }
        return usedNanos(job) >= RUN_NANOS;
    }

    void setLateNanos(long nanos) {
        lateNanos = nanos;
    }

    @Override
    public long lateNanos() {
        return lateNanos;
    }

    CpuIdle cpuIdle() {
        return cpuIdle;
    }

    @Override
    public Idle idle() {
        return cpuIdle.last();
    }

    private static long elapsedNanos(Job job) {
        long nowNanos = System.nanoTime();
        long elapsedNanos = nowNanos - job.seenNanos;
        job.seenNanos = nowNanos;
        return elapsedNanos;
    }

    /** CPU time since the last look; 0 for threads that have no clock of their own. */
    private long usedNanos(Job job) {
        long cpuNanos = job.kernelThread() == 0 ? -1 : threads.getThreadCpuTime(job.thread().getId());
        if (cpuNanos < 0) {
            return 0;
        }
        long usedNanos = cpuNanos - job.seenCpuNanos;
        job.seenCpuNanos = cpuNanos;
        return usedNanos;
    }
}
