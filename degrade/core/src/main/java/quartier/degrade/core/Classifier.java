package quartier.degrade.core;

import java.util.List;

/** The first class whose rule fits; the last one takes what fits none. */
final class Classifier {
    private final List<RunQueue> queues;

    Classifier(List<RunQueue> queues) {
        this.queues = List.copyOf(queues);
    }

    RunQueue queue(Request request) {
        for (RunQueue queue : queues) {
            if (queue.workClass().rule().fits(request)) {
                return queue;
            }
        }
        return queues.get(queues.size() - 1);
    }
}
