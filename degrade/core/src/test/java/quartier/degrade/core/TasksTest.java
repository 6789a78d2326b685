package quartier.degrade.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class TasksTest {
    private static final Scheduler SCHEDULER = new Scheduler(new Settings(
            1, 1, 1, Settings.Mode.ON, quartier.degrade.core.policy.Fair::new, List.of(WorkClass.plain("a"))));

    private final Tasks tasks = new Tasks();

    private static Job job() {
        return SCHEDULER.job(Simulation.requestOf("a"), null, 1);
    }

    @Test
    void aTaskIsTakenOnce() {
        Job whole = job();
        Object task = new Object();
        assertNull(tasks.take(task));
        tasks.put(task, whole);
        assertSame(whole, tasks.take(task));
        assertNull(tasks.take(task));
    }

    @Test
    void whatATaskIsEqualToIsItsOwnAffair() {
        record Equal(int number) {}
        Equal first = new Equal(1);
        Equal second = new Equal(1);
        Job ofFirst = job();
        Job ofSecond = job();
        tasks.put(first, ofFirst);
        tasks.put(second, ofSecond);
        assertSame(ofSecond, tasks.take(second));
        assertSame(ofFirst, tasks.take(first));
    }

    @Test
    void aTaskThatIsHandedOverTwiceBelongsToTheLast() {
        Object task = new Object();
        Job last = job();
        tasks.put(task, job());
        tasks.put(task, last);
        assertSame(last, tasks.take(task));
        assertNull(tasks.take(task));
    }

    @Test
    void whatNobodyRunsIsForgotten() throws InterruptedException {
        for (int at = 0; at < 1000; at++) {
            tasks.put(new Object(), job());
        }
        Object kept = new Object();
        // However long the collector takes: the test's time limit is the bound.
        while (tasks.nr() > 2) {
            System.gc();
            Thread.sleep(10);
            tasks.put(kept, job());
        }
        assertTrue(tasks.take(kept) != null);
    }

    @Test
    void threadsHandOverAndTakeAtOnce() throws InterruptedException {
        ConcurrentLinkedQueue<Object> queue = new ConcurrentLinkedQueue<>();
        AtomicLong nrTaken = new AtomicLong();
        AtomicLong nrPut = new AtomicLong();
        Thread[] threads = new Thread[4];
        for (int at = 0; at < threads.length; at++) {
            boolean gives = at % 2 == 0;
            threads[at] = new Thread(() -> {
                for (int round = 0; round < 20_000; round++) {
                    if (gives) {
                        Object task = new Object();
                        tasks.put(task, job());
                        nrPut.incrementAndGet();
                        queue.add(task);
                    } else {
                        Object task = queue.poll();
                        nrTaken.addAndGet(task != null && tasks.take(task) != null ? 1 : 0);
                    }
                }
            });
            threads[at].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (Object task = queue.poll(); task != null; task = queue.poll()) {
            nrTaken.addAndGet(tasks.take(task) != null ? 1 : 0);
        }
        assertEquals(nrPut.get(), nrTaken.get(), "each is found once");
    }
}
