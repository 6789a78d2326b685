package quartier.degrade.weave;

import java.util.ArrayList;
import java.util.List;
import quartier.degrade.gate.Gate;
import quartier.degrade.gate.Hook;

/** Writes down what reaches the gate. */
final class RecordingHook implements Hook, AutoCloseable {
    final List<String> events = new ArrayList<>();
    boolean rejects;
    RuntimeException thrown;

    RecordingHook() {
        Gate.connect(this);
        Gate.ask(true);
    }

    /** Runs this as a request. */
    void request(Runnable work) {
        Gate.begin("test", "request", "response");
        try {
            work.run();
        } finally {
            Gate.end();
        }
    }

    long count(String event) {
        return events.stream().filter(event::equals).count();
    }

    @Override
    public Object begin(String server, Object request, Object response) {
        events.add("begin " + server + " " + request + " " + response);
        return rejects ? REJECTED : "job";
    }

    @Override
    public void point(Object job, boolean mayYield) {
        events.add(mayYield ? "point" : "held");
        if (thrown != null) {
            throw thrown;
        }
    }

    @Override
    public void end(Object job) {
        events.add("end");
    }

    @Override
    public void fault(Throwable fault) {
        events.add("fault");
    }

    @Override
    public void close() {
        Gate.connect(null);
    }
}
