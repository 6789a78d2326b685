package quartier.degrade.weave;

import java.util.ArrayList;
import java.util.List;
import quartier.degrade.gate.Gate;
import quartier.degrade.gate.Hook;

/** Writes down what reaches the gate. */
final class RecordingHook implements Hook, AutoCloseable {
    final List<String> events = new ArrayList<>();
    final List<Object> handedOver = new ArrayList<>();
    boolean rejects;
    RuntimeException thrown;

    RecordingHook() {
        Gate.connect(this);
        Gate.ask(true);
    }

    /** Runs this as a request. */
    void request(Runnable work) {
        Gate.begin("test", "request", "response", null);
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
    public Object begin(String server, Object request, Object response, Object callback) {
        events.add("begin " + server + " " + request + " " + response + (callback == null ? "" : " " + callback));
        return rejects ? REJECTED : "job";
    }

    @Override
    public Object resume(String server, Object request) {
        events.add("resume " + server);
        return "job";
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
        events.add("end".concat("job".equals(job) ? "" : " " + job));
    }

    @Override
    public void finish(String server, Object request) {
        events.add("finish " + server);
    }

    @Override
    public void handler(Object job, String server, Object handler) {
        events.add("handler " + server + " " + handler);
    }

    @Override
    public void handOver(Object job, Object task) {
        handedOver.add(task);
    }

    @Override
    public Object taken(Object task) {
        return handedOver.removeIf(known -> known == task) ? "whole" : null;
    }

    @Override
    public Object beginPart(Object whole) {
        events.add("part of " + whole);
        return "part";
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
