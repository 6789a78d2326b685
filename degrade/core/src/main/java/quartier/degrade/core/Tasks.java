package quartier.degrade.core;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Tasks that were handed over, and whose they are, until they run, or nobody has them any more. By identity: what a
 * task is equal to is its own affair.
 */
public final class Tasks {
    private final ConcurrentHashMap<Object, Job> wholes = new ConcurrentHashMap<>();
    private final ReferenceQueue<Object> forgotten = new ReferenceQueue<>();

    /** A task in the table. It does not keep it. */
    private static final class Kept extends WeakReference<Object> {
        private final int hash;

        Kept(Object task, ReferenceQueue<Object> forgotten) {
            super(task, forgotten);
            hash = System.identityHashCode(task);
        }

        @Override
        public int hashCode() {
            return hash;
        }

        @Override
        public boolean equals(Object other) {
            return other == this || other instanceof Kept kept && kept.get() != null && kept.get() == get();
        }
    }

    /** A task that is looked for. */
    private record Sought(Object task) {
        @Override
        public int hashCode() {
            return System.identityHashCode(task);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Kept kept && kept.get() == task;
        }
    }

    /** A task that is handed over again belongs to whoever did that last. */
    public void put(Object task, Job whole) {
        for (Object gone = forgotten.poll(); gone != null; gone = forgotten.poll()) {
            wholes.remove(gone);
        }
        wholes.put(new Kept(task, forgotten), whole);
    }

    /** Whose it is, once; null for nobody's. */
    public Job take(Object task) {
        return wholes.isEmpty() ? null : wholes.remove(new Sought(task));
    }

    /** How many are waiting to run, or to be forgotten. */
    int nr() {
        return wholes.size();
    }
}
