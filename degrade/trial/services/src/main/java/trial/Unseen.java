package trial;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.PriorityBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** A thread pool that looks at its tasks wherever it can, and says what is not as it was handed over. */
final class Unseen {
    /** Is told apart from others only by being itself, and ordered: what a wrapper would not be. */
    private static final class Task implements Runnable, Comparable<Task> {
        private final int number;

        Task(int number) {
            this.number = number;
        }

        @Override
        public void run() {
            if (number == 0) {
                throw new IllegalStateException("the task's own");
            }
            Services.light();
        }

        @Override
        public int compareTo(Task other) {
            return Comparator.<Integer>naturalOrder().compare(number, other.number);
        }

        @Override
        public String toString() {
            return "task " + number;
        }
    }

    private final CountDownLatch mayBegin = new CountDownLatch(1);
    private final List<Object> before = new ArrayList<>();
    private final List<Object> after = new ArrayList<>();
    private final List<Object> rejected = new ArrayList<>();

    /** One thread, so what it does is in order. */
    private final class Pool extends ThreadPoolExecutor {
        Pool() {
            super(1, 1, 1, TimeUnit.SECONDS, new PriorityBlockingQueue<>(), (task, pool) -> rejected.add(task));
            setThreadFactory(work -> {
                Thread thread = new Thread(work);
                thread.setUncaughtExceptionHandler((ended, thrown) -> {});
                return thread;
            });
        }

        @Override
        protected void beforeExecute(Thread thread, Runnable task) {
            before.add(task);
            try {
                mayBegin.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        protected void afterExecute(Runnable task, Throwable thrown) {
            after.add(task);
        }
    }

    static String look() {
        try {
            return new Unseen().check();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private String check() throws InterruptedException {
        Pool pool = new Pool();
        List<Task> tasks = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            tasks.add(new Task(number));
        }
        // The first is taken by the thread; the others are put into order by the queue.
        List.of(0, 3, 1, 4, 2).forEach(number -> pool.execute(tasks.get(number)));
        require(pool.getQueue().contains(tasks.get(2)), "the queue has what was handed over");
        require(pool.getQueue().peek() == tasks.get(1), "in its own order");
        require(pool.getQueue().toString().contains("task 4"), "with its own name");
        require(pool.remove(tasks.get(3)), "and gives it back");
        mayBegin.countDown();
        pool.shutdown();
        Task late = new Task(9);
        pool.execute(late);
        require(pool.awaitTermination(30, TimeUnit.SECONDS), "it ends");
        List<Task> ran = List.of(tasks.get(0), tasks.get(1), tasks.get(2), tasks.get(4));
        require(same(before, ran) && same(after, ran), "what runs is what was handed over: " + before + after);
        require(same(rejected, List.of(late)), "what is refused too");
        return "nothing to be seen";
    }

    private static boolean same(List<Object> found, List<Task> wanted) {
        boolean same = found.size() == wanted.size();
        for (int at = 0; same && at < found.size(); at++) {
            same = found.get(at) == wanted.get(at);
        }
        return same;
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException("not so: " + what);
        }
    }
}
