package quartier.degrade.agent;

import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import quartier.degrade.core.Job;
import quartier.degrade.core.Look;
import quartier.degrade.core.Probe;

/** What threads are doing: their CPU clocks, and where those stand still, the kernel's word. */
final class ThreadProbe implements Probe {
    /** Who ran for less of the time since the last look is looked at closely. */
    private static final double BUSY_PART = 0.25;
    static final long LOOK_NANOS = 200_000_000;
    /** A look so long ago says nothing about now. */
    private static final long STALE_NANOS = 20_000_000;
    /** To wake up and go back to sleep is not to run. */
    private static final long RUN_NANOS = 50_000;

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final CpuIdle cpuIdle = CpuIdle.ofThisMachine();
    /** Null where nothing is compiled. */
    private final CompilationMXBean compilers = ManagementFactory.getCompilationMXBean();
    private long compiledMillis = compiledMillis();
    private long lookedNanos = System.nanoTime();
    private Look look;
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

    /** Looks at CPUs, under no lock, to be called every {@link #LOOK_NANOS}. */
    void lookAtCpus(long nowNanos) {
        long forNanos = nowNanos - lookedNanos;
        lookedNanos = nowNanos;
        double idlePart = cpuIdle.part(forNanos, Runtime.getRuntime().availableProcessors());
        look = new Look(idlePart, nrCompiling(forNanos), forNanos);
    }

    /** The compilers' time is what passes while they have work, whether they have a CPU for it or wait for one. */
    private double nrCompiling(long forNanos) {
        long beforeMillis = compiledMillis;
        compiledMillis = compiledMillis();
        return (compiledMillis - beforeMillis) * 1e6 / forNanos;
    }

    private long compiledMillis() {
        boolean isKnown = compilers != null && compilers.isCompilationTimeMonitoringSupported();
        return isKnown ? compilers.getTotalCompilationTime() : 0;
    }

    @Override
    public Look look() {
        return look;
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
