package quartier.degrade.weave;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import quartier.degrade.gate.ConnectionStep;
import quartier.degrade.gate.Gate;
import quartier.degrade.gate.Hook;
import quartier.degrade.gate.Occupant;

/** Writes down what reaches the gate. */
final class RecordingHook implements Hook, AutoCloseable {
    final List<String> events = new ArrayList<>();
    final List<Object> handedOver = new ArrayList<>();
    boolean rejects;
    RuntimeException thrown;

    boolean asks = true;
    private final Occupant job = new Named("job");

    private final class Named implements Occupant {
        final String name;

        Named(String name) {
            this.name = name;
        }

        @Override
        public boolean isAsked() {
            return asks;
        }
    }

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
    public Occupant begin(String server, Object request, Object response, Object callback) {
        events.add("begin " + server + " " + request + " " + response + (callback == null ? "" : " " + callback));
        return rejects ? REJECTED : job;
    }

    @Override
    public Occupant resume(String server, Object request) {
        events.add("resume " + server);
        return job;
    }

    @Override
    public void point(Occupant occupant, boolean mayYield) {
        events.add(mayYield ? "point" : "held");
        if (thrown != null) {
            throw thrown;
        }
    }

    @Override
    public void end(Occupant occupant) {
        events.add(occupant == job ? "end" : "end " + ((Named) occupant).name);
    }

    @Override
    public void finish(String server, Object request) {
        events.add("finish " + server);
    }

    @Override
    public void handler(Occupant occupant, String server, Object handler) {
        events.add("handler " + server + " " + handler);
    }

    @Override
    public void connection(ConnectionStep step, Object of) {
        events.add(step.name().toLowerCase(Locale.ROOT) + " " + of);
    }

    @Override
    public void handOver(Occupant occupant, Object task) {
        handedOver.add(task);
    }

    @Override
    public Object taken(Object task) {
        return handedOver.removeIf(known -> known == task) ? "whole" : null;
    }

    @Override
    public Occupant beginPart(Object whole) {
        events.add("part of " + whole);
        return new Named("part");
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
