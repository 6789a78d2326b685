package trial;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Exchanger;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * Requests that hold something while they compute, and want what others hold: locks that woven code takes, one in another, locks
 * that it does not take itself, and meetings. By themselves they never stand still.
 */
final class Hunt {
    private static final Object[] MONITORS = {new Object(), new Object(), new Object()};
    private static final Lock LOCK = new ReentrantLock();
    private static final Condition FILLED = LOCK.newCondition();
    private static final Deque<String> BUFFER = new ArrayDeque<>();
    private static final ReentrantReadWriteLock BOTH = new ReentrantReadWriteLock();
    private static final Semaphore TWO = new Semaphore(2);
    private static final ConcurrentHashMap<Integer, String> MAP = new ConcurrentHashMap<>();
    private static final Exchanger<String> MEETING = new Exchanger<>();
    private static final long PATIENCE_MILLIS = 200;

    private interface Quarry {
        void run() throws InterruptedException;
    }

    private static final List<Quarry> ALL = List.of(
            Hunt::inMonitors, Hunt::put, Hunt::take, Hunt::read, Hunt::write, Hunt::oneOfTwo, Hunt::inTheMapsLock, Hunt::meet);

    private Hunt() {}

    static String once() {
        try {
            ALL.get(ThreadLocalRandom.current().nextInt(ALL.size())).run();
            return "caught";
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    /** Always in the same order. */
    private static void inMonitors() {
        synchronized (MONITORS[0]) {
            Services.light();
            synchronized (MONITORS[1]) {
                Services.light();
                synchronized (MONITORS[2]) {
                    Services.light();
                }
            }
        }
    }

    private static void put() {
        LOCK.lock();
        try {
            BUFFER.add(Services.light());
            FILLED.signal();
        } finally {
            LOCK.unlock();
        }
    }

    private static void take() throws InterruptedException {
        LOCK.lock();
        try {
            if (BUFFER.isEmpty()) {
                FILLED.await(PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
            }
            BUFFER.poll();
            Services.light();
        } finally {
            LOCK.unlock();
        }
    }

    private static void read() {
        BOTH.readLock().lock();
        try {
            Services.heavy();
        } finally {
            BOTH.readLock().unlock();
        }
    }

    private static void write() {
        BOTH.writeLock().lock();
        try {
            Services.light();
        } finally {
            BOTH.writeLock().unlock();
        }
    }

    /** It may yield with one of these in its hand: nobody counts them, since whoever takes one need not be who gives it back. */
    private static void oneOfTwo() throws InterruptedException {
        TWO.acquire();
        try {
            Services.heavy();
        } finally {
            TWO.release();
        }
    }

    /** It may yield here too: the map's own lock is taken by code that is not woven. */
    private static void inTheMapsLock() {
        MAP.compute(1, (key, value) -> Services.heavy());
    }

    private static void meet() throws InterruptedException {
        try {
            MEETING.exchange(Services.light(), PATIENCE_MILLIS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException nobody) {
            // Whoever is there to meet may be doing something else.
        }
    }
}
