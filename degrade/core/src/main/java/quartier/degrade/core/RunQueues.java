package quartier.degrade.core;

import java.util.ArrayList;
import java.util.List;

/** The classes of work that are in operation, and which of them a request is of. Written under the dispatcher's lock. */
final class RunQueues {
    private final List<RunQueue> all = new ArrayList<>();
    /** Read without the lock. */
    private volatile Classifier classifier;

    /** Other classes from now on. One that is not among them goes, unless jobs of it are here. */
    void configure(List<WorkClass> classes) {
        for (WorkClass workClass : classes) {
            RunQueue queue = find(workClass.name());
            if (queue == null) {
                all.add(new RunQueue(workClass));
            } else {
                queue.configure(workClass);
                queue.virtualNanos = 0;
                queue.recentNanos = 0;
            }
        }
        all.removeIf(queue -> queue.nrPresent == 0 && queue.nrParts == 0 && !classes.contains(queue.workClass()));
        classifier = new Classifier(classes.stream().map(workClass -> find(workClass.name())).toList());
    }

    private RunQueue find(String name) {
        for (RunQueue queue : all) {
            if (queue.workClass().name().equals(name)) {
                return queue;
            }
        }
        return null;
    }

    /** A job comes whose class may have gone while it was on its way here. */
    void include(RunQueue queue) {
        if (!all.contains(queue)) {
            all.add(queue);
        }
    }

    List<RunQueue> all() {
        return all;
    }

    /** By any thread. */
    Classifier classifier() {
        return classifier;
    }
}
