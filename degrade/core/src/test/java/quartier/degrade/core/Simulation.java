package quartier.degrade.core;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import quartier.degrade.core.Scheduler.Verdict;

/** A server in simulated time: as many CPUs as permits, and clients that ask again as soon as they are answered. */
final class Simulation {
    private static final long STEP_NANOS = 100_000;
    private static final long TICK_NANOS = 1_000_000;
    private static final long REST_NANOS = 100_000_000;
    static final Probe BUSY = new Busy();

    final Scheduler scheduler;
    final Map<String, Long> usedNanos = new HashMap<>();
    private final List<Client> clients = new ArrayList<>();
    private final Set<String> stubborn = new HashSet<>();
    private final int nrCpus;
    private long nrSteps;
    private long tickedNanos;
    long nowNanos = 1;

    /** Everybody always runs. */
    static class Busy implements Probe {
        @Override
        public boolean wantsCpu(Job job) {
            return true;
        }

        @Override
        public boolean hasRun(Job job) {
            return true;
        }
    }

    /** One client: the class whose requests it sends, and how much CPU each takes. */
    private final class Client {
        final String className;
        final long demandNanos;
        Job job;
        long leftNanos;
        boolean stopped;

        Client(String className, long demandNanos) {
            this.className = className;
            this.demandNanos = demandNanos;
        }

        void send() {
            job = scheduler.job(requestOf(className), null, nowNanos);
            leftNanos = demandNanos;
            if (scheduler.arrive(job, nowNanos) == Verdict.REJECT) {
                job = null;
            }
        }

        boolean wantsCpu() {
            return job != null && (job.state() == Job.State.RUNNING || job.state() == Job.State.LOOSE);
        }

        /** What happens without a CPU. */
        void look() {
            if (job == null && !stopped) {
                send();
            } else if (job != null && job.state() == Job.State.WAITING
                    && nowNanos - scheduler.deadlineNanos(job) >= 0
                    && scheduler.giveUp(job, nowNanos) == Verdict.REJECT) {
                job = null;
            }
        }

        void run() {
            leftNanos -= STEP_NANOS;
            usedNanos.merge(className, STEP_NANOS, Long::sum);
            if (leftNanos <= 0) {
                scheduler.leave(job, nowNanos);
                job = null;
            } else if (job.asked() && stubborn.contains(className)) {
                scheduler.decline(job, nowNanos);
            } else if (job.asked()) {
                scheduler.pass(job, nowNanos);
            }
        }
    }

    Simulation(Settings settings) {
        this(settings, settings.nrPermits());
    }

    Simulation(Settings settings, int nrCpus) {
        scheduler = new Scheduler(settings);
        this.nrCpus = nrCpus;
    }

    /** Requests of this class hold a lock at each of their points. */
    Simulation stubborn(String className) {
        stubborn.add(className);
        return this;
    }

    static Request requestOf(String path) {
        return new Request() {
            @Override
            public String method() {
                return "GET";
            }

            @Override
            public String path() {
                return path;
            }

            @Override
            public String header(String name) {
                return null;
            }

            @Override
            public String handler() {
                return null;
            }
        };
    }

    static WorkClass classFor(String name) {
        return new WorkClass(
                name,
                new Rule(List.of(Glob.path(name)), List.of(), Map.of(), List.of()),
                1, 0, 0, WorkClass.Admission.UNBOUNDED);
    }

    Simulation clients(int nr, String className, long demandNanos) {
        for (int at = 0; at < nr; at++) {
            clients.add(new Client(className, demandNanos));
        }
        return this;
    }

    void stopClients(String className) {
        clients.stream().filter(client -> client.className.equals(className)).forEach(client -> client.stopped = true);
    }

    Simulation run(long forNanos) {
        long untilNanos = nowNanos + forNanos;
        while (nowNanos < untilNanos) {
            nowNanos += STEP_NANOS;
            clients.forEach(Client::look);
            List<Client> runnable = clients.stream().filter(Client::wantsCpu).toList();
            // The kernel: whoever is runnable takes turns, whether we gave it a permit or not.
            for (int cpu = 0; cpu < Math.min(nrCpus, runnable.size()); cpu++) {
                runnable.get((int) ((nrSteps + cpu) % runnable.size())).run();
            }
            nrSteps += nrCpus;
            if (nowNanos - tickedNanos >= (scheduler.needsTicks() ? TICK_NANOS : REST_NANOS)) {
                tickedNanos = nowNanos;
                scheduler.tick(nowNanos, BUSY);
            }
            scheduler.takeGranted();
        }
        return this;
    }

    ClassReport report(String className) {
        return ClassReport.of(scheduler, nowNanos).stream()
                .filter(report -> report.name().equals(className))
                .findFirst()
                .orElseThrow();
    }

    double p95Millis(String className) {
        return report(className).p95Nanos().orElseThrow() / 1e6;
    }

    /** The part of all CPU time since the last call that the class got. */
    double takeShare(String className) {
        double all = usedNanos.values().stream().mapToLong(nanos -> nanos).sum();
        double share = usedNanos.getOrDefault(className, 0L) / all;
        usedNanos.clear();
        return share;
    }
}
