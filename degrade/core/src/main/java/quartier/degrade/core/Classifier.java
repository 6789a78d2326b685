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

    /** Whether a request that was put into this class may be of another once it is known who handles it. */
    boolean isUnsure(Request request, RunQueue queue) {
        for (RunQueue before : queues) {
            if (before == queue) {
                break;
            }
            Rule rule = before.workClass().rule();
            if (!rule.handlers().isEmpty() && rule.withoutHandlers().fits(request)) {
                return !request.isHandlerKnown();
            }
        }
        return false;
    }

    /** A class that comes before this one and asks for the handler, which was not known before; else this one. */
    RunQueue queue(Request handled, RunQueue before) {
        for (RunQueue queue : queues) {
            if (queue == before) {
                break;
            }
            Rule rule = queue.workClass().rule();
            if (!rule.handlers().isEmpty() && rule.fits(handled)) {
                return queue;
            }
        }
        return before;
    }
}
