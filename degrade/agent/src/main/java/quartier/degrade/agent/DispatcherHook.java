package quartier.degrade.agent;

import java.util.List;
import quartier.degrade.core.Dispatcher;
import quartier.degrade.core.Job;
import quartier.degrade.core.WorkClass.Admission;
import quartier.degrade.gate.Hook;
import quartier.degrade.servers.Server;

/** From the gate to the dispatcher. */
final class DispatcherHook implements Hook {
    private final Dispatcher dispatcher;

    DispatcherHook(Dispatcher dispatcher) {
        this.dispatcher = dispatcher;
    }

    @Override
    public Object begin(String serverName, Object request, Object response) {
        if (Thread.currentThread() instanceof OwnThread) {
            return null;
        }
        Server server = server(serverName);
        Job job = dispatcher.enter(server.request(request), KernelThreads.current());
        if (job.state() != Job.State.DONE) {
            return job;
        }
        Admission admission = job.workClass().admission();
        server.reject(request, response, admission.rejectCode(), admission.retryAfterSeconds());
        return REJECTED;
    }

    private static Server server(String name) {
        List<Server> servers = Server.ALL;
        for (Server server : servers) {
            if (server.name().equals(name)) {
                return server;
            }
        }
        throw new IllegalStateException("no server " + name);
    }

    @Override
    public void point(Object job, boolean mayYield) {
        dispatcher.point((Job) job, mayYield);
    }

    @Override
    public void end(Object job) {
        dispatcher.leave((Job) job);
    }

    @Override
    public void fault(Throwable thrown) {
        if (dispatcher.countFault() == 1) {
            Say.say("something of ours went wrong, and the request ran on (further ones are only counted): " + thrown);
        }
    }
}
