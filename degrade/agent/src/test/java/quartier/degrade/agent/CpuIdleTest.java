package quartier.degrade.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How idle the CPUs are that a process may use, from files such as the kernel's. */
class CpuIdleTest {
    private static final long LOOK_NANOS = ThreadProbe.LOOK_NANOS;
    private static final int MANY = 64;

    @TempDir
    Path proc;

    @TempDir
    Path groups;

    @BeforeEach
    void files() throws IOException {
        write(proc, "self/status", "Name:\tjava\nCpus_allowed_list:\t0,2-3\n");
        write(proc, "self/cgroup", "0::/a/b\n");
        cpus(0, 0, 0, 0);
        used(0);
    }

    private static void write(Path folder, String name, String text) throws IOException {
        Path file = folder.resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, text);
    }

    /** What each CPU has been idle for, half of it waiting for a disk, in ticks of 10 ms. */
    private void cpus(int... idleTicks) throws IOException {
        StringBuilder text = new StringBuilder("cpu  9 9 9 9 9 9 9 9 9 9\n");
        for (int cpu = 0; cpu < idleTicks.length; cpu++) {
            int half = idleTicks[cpu] / 2;
            text.append("cpu" + cpu + " 5 5 5 " + half + " " + (idleTicks[cpu] - half) + " 5 5 5 5 5\n");
        }
        write(proc, "stat", text + "intr 1 2 3\nctxt 4\n");
    }

    private void used(int ticks) throws IOException {
        write(proc, "self/stat", "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 " + ticks + " 0 0 0 20 0\n");
    }

    private CpuIdle cpuIdle() {
        return new CpuIdle(proc, groups);
    }

    private double look(CpuIdle cpuIdle, int nrCpusOfJvm) {
        return cpuIdle.part(LOOK_NANOS, nrCpusOfJvm);
    }

    @Test
    void onlyCpusOnWhichItMayRunCount() throws IOException {
        CpuIdle cpuIdle = cpuIdle();
        assertEquals(Double.NaN, look(cpuIdle, MANY), "the first time there is nothing to compare with");
        cpus(20, 20, 10, 0);
        assertEquals(0.5, look(cpuIdle, MANY));
        assertEquals(0, look(cpuIdle, MANY));
        cpus(200, 200, 200, 200);
        assertEquals(Double.NaN, cpuIdle.part(11 * LOOK_NANOS, MANY), "too long ago");
    }

    @Test
    void cpusThatAreNotThereAreNotWaitedFor() throws IOException {
        write(proc, "self/status", "Cpus_allowed_list:\t0-127\n");
        CpuIdle cpuIdle = cpuIdle();
        look(cpuIdle, MANY);
        cpus(20, 20, 0, 0);
        assertEquals(0.5, look(cpuIdle, MANY));
        cpus(20, 20, 0);
        assertEquals(Double.NaN, look(cpuIdle, MANY), "one has gone");
        cpus(20, 40, 10);
        assertEquals(0.5, look(cpuIdle, MANY));
    }

    @Test
    void whoMayUseFewerHasNoMoreIdleThanItLeaves() throws IOException {
        CpuIdle cpuIdle = cpuIdle();
        look(cpuIdle, 2);
        cpus(15, 20, 15, 10);
        used(30);
        assertEquals(0.25, look(cpuIdle, 2), 1e-9, "10 of 40 ticks");
    }

    @Test
    void whoWasThrottledHadNothingIdle() throws IOException {
        write(groups, "cpu.stat", "usage_usec 1\n");
        write(groups, "a/cpu.stat", "nr_periods 10\nnr_throttled 3\nthrottled_usec 5\n");
        write(groups, "a/b/cpu.stat", "nr_throttled 0\n");
        CpuIdle cpuIdle = cpuIdle();
        look(cpuIdle, MANY);
        cpus(20, 20, 20, 20);
        assertEquals(1, look(cpuIdle, MANY));
        cpus(40, 40, 40, 40);
        write(groups, "a/cpu.stat", "nr_throttled 4\n");
        assertEquals(0, look(cpuIdle, MANY));
        Files.delete(groups.resolve("a/cpu.stat"));
        assertEquals(Double.NaN, look(cpuIdle, MANY));
        cpus(60, 60, 60, 60);
        assertEquals(Double.NaN, look(cpuIdle, MANY));
        cpus(80, 80, 80, 80);
        assertEquals(1, look(cpuIdle, MANY), "the group has gone");
    }

    @Test
    void bothVersionsOfControlGroupsAreFound() throws IOException {
        write(proc, "self/cgroup", "4:cpu,cpuacct:/x\n1:name=systemd:/y\nwhat is this\n0::/../..\n");
        write(groups, "cpu,cpuacct/x/cpu.stat", "nr_throttled 1\n");
        write(groups, "cpu.stat", "nr_throttled 1\n");
        assertEquals(List.of(groups.resolve("cpu,cpuacct/x/cpu.stat")), ControlGroups.ofSelf(proc, groups));
        write(proc, "self/cgroup", "0::/\n");
        assertEquals(List.of(groups.resolve("cpu.stat")), ControlGroups.ofSelf(proc, groups));
        Files.delete(proc.resolve("self/cgroup"));
        assertEquals(List.of(), ControlGroups.ofSelf(proc, groups));
    }

    @Test
    void whatTheKernelDoesNotSayIsNotKnown() throws IOException {
        for (String stat : List.of("", "cpu0", "cpu0 1 2 3 x 5\n", "cpux 1 2 3 4 5\n", "cpu1 1 2 3 4 5\n", "cpu\n")) {
            CpuIdle cpuIdle = cpuIdle();
            write(proc, "stat", stat);
            look(cpuIdle, MANY);
            assertEquals(Double.NaN, look(cpuIdle, MANY), stat);
        }
        for (String file : List.of("stat", "self/stat", "self/status")) {
            files();
            Files.delete(proc.resolve(file));
            CpuIdle cpuIdle = cpuIdle();
            look(cpuIdle, MANY);
            assertEquals(Double.NaN, look(cpuIdle, MANY), file);
        }
    }

    @Test
    void thisMachineSays() {
        CpuIdle cpuIdle = CpuIdle.ofThisMachine();
        cpuIdle.part(LOOK_NANOS, MANY);
        double part = cpuIdle.part(LOOK_NANOS, MANY);
        assertTrue(part >= 0 && part <= 1, "part " + part);
    }
}
