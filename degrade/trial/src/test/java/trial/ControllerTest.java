package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.jdi.Bootstrap;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.connect.AttachingConnector;
import com.sun.jdi.connect.Connector;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A controller that stands still, as one does that the kernel lets nowhere, or that has died: by a debugger. */
@Timeout(120)
class ControllerTest {
    private static final String DEBUGGER = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0";
    private static final int MANY = 1_000_000;

    private static VirtualMachine debugger(String port) throws Exception {
        AttachingConnector sockets = Bootstrap.virtualMachineManager().attachingConnectors().stream()
                .filter(connector -> connector.transport().name().equals("dt_socket"))
                .findFirst()
                .orElseThrow();
        Map<String, Connector.Argument> arguments = sockets.defaultArguments();
        arguments.get("hostname").setValue("127.0.0.1");
        arguments.get("port").setValue(port);
        return sockets.attach(arguments);
    }

    /** Between two ticks: in the middle of one it would have the lock that all need. */
    private static ThreadReference stopController(VirtualMachine machine) throws Exception {
        ThreadReference controller = machine.allThreads().stream()
                .filter(thread -> thread.name().equals("quartier-degrade-controller"))
                .findFirst()
                .orElseThrow();
        for (int attempt = 0; attempt < 1000; attempt++) {
            controller.suspend();
            if (controller.frame(0).location().method().name().equals("park")) {
                return controller;
            }
            controller.resume();
            Thread.sleep(1);
        }
        throw new AssertionError("it never parks");
    }

    @Test
    void requestsRunOnWithoutItAndInOrderOnceItIsBack() throws Exception {
        try (ServerProcess server = new ServerProcess(Application.of(TomcatMain.class).with(DEBUGGER), ServerTest.classes(1, 1))) {
            VirtualMachine machine = debugger(server.awaitPrinted("dt_socket at address: (\\d+)"));
            Load load = new Load(server.port).clients(8, "/light", MANY).clients(8, "/heavy", MANY);
            Thread clients = load.start();
            server.awaitMetric("yields_total{class=\"heavy\"}", 1);
            assertEquals(0, server.metric("opened_total"));

            ThreadReference controller = stopController(machine);
            server.awaitMetric("opened_total", 1);
            double yields = server.metric("yields_total{class=\"heavy\"}");
            server.awaitMetric("completed_total{class=\"heavy\"}", server.metric("completed_total{class=\"heavy\"}") + 20);
            assertEquals(0, server.metric("waiting{class=\"heavy\"}"), "nobody waits for whoever does not come");
            assertEquals(yields, server.metric("yields_total{class=\"heavy\"}"));

            controller.resume();
            server.awaitMetric("yields_total{class=\"heavy\"}", yields + 20);
            assertEquals(1, server.metric("opened_total"));
            machine.dispose();
            load.stop();
            clients.join();
            assertEquals(List.of(), load.failures());
            assertTrue(server.metric("faults_total") == 0, server.said());
        }
    }
}
