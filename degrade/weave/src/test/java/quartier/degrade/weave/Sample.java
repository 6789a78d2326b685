package quartier.degrade.weave;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.concurrent.locks.StampedLock;

/** What is woven in tests. */
public final class Sample {
    private final Lock lock = new ReentrantLock();
    private final ReentrantReadWriteLock both = new ReentrantReadWriteLock();
    private final StampedLock stamped = new StampedLock();
    private final OwnLock own = new OwnLock();
    private int value = 7;

    /** An application's, which is woven too. */
    static final class OwnLock extends ReentrantLock {
        private static final long serialVersionUID = 1;

        @Override
        public void lock() {
            super.lock();
        }

        @Override
        public void unlock() {
            super.unlock();
        }
    }

    /** A class whose initialiser works. */
    public static final class Initialised {
        static final int VALUE = fibonacci(5);

        public static int touch() {
            return VALUE;
        }
    }

    public static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }

    public int getter() {
        return value;
    }

    public static int leafLoop(int[] numbers) {
        int sum = 0;
        for (int number : numbers) {
            sum += number;
        }
        return sum;
    }

    public static int nestedLoops(int nr) {
        int sum = 0;
        for (int row = 0; row < nr; row++) {
            for (int column = 0; column < nr; column++) {
                sum += row ^ column;
            }
        }
        return sum;
    }

    /** A backward jump of a switch. */
    public static int stateMachine(int state) {
        while (true) {
            switch (state) {
                case 0:
                    state = Math.abs(-3);
                    continue;
                case 3:
                    state = Math.abs(-9);
                    continue;
                default:
                    return state;
            }
        }
    }

    public int monitor() {
        synchronized (this) {
            return fibonacci(3);
        }
    }

    public synchronized int synchronizedMethod() {
        return fibonacci(3);
    }

    public synchronized int throwing() {
        value = fibonacci(1);
        throw new IllegalStateException("the sample's own");
    }

    public int locked() {
        lock.lock();
        try {
            return fibonacci(3);
        } finally {
            lock.unlock();
        }
    }

    public int ownLock() {
        own.lock();
        try {
            return fibonacci(3);
        } finally {
            own.unlock();
        }
    }

    public int tried() throws InterruptedException {
        if (!lock.tryLock() || !both.readLock().tryLock(1, TimeUnit.SECONDS)) {
            return -1;
        }
        try {
            return fibonacci(3);
        } finally {
            both.readLock().unlock();
            lock.unlock();
        }
    }

    public int stamped() {
        long stamp = stamped.tryWriteLock();
        try {
            return stamped.tryReadLock() == 0 ? fibonacci(3) : -1;
        } finally {
            stamped.unlockWrite(stamp);
        }
    }

    public int point() {
        return fibonacci(3);
    }
}
