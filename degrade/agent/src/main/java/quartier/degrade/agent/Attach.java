package quartier.degrade.agent;

import com.sun.tools.attach.VirtualMachine;
import java.nio.file.Path;

/** {@code java -jar quartier-degrade.jar attach PID FILE}, and {@code detach PID}. */
public final class Attach {
    private Attach() {}

    public static void main(String[] arguments) {
        boolean attach = arguments.length == 3 && arguments[0].equals("attach");
        boolean detach = arguments.length == 2 && arguments[0].equals(Agent.DETACH);
        if (!attach && !detach) {
            Say.say("use: java -jar quartier-degrade.jar attach PID FILE, or: detach PID");
            System.exit(2);
        }
        try {
            String told = attach ? Path.of(arguments[2]).toAbsolutePath().toString() : Agent.DETACH;
            tell(arguments[1], told);
        } catch (Exception | LinkageError thrown) {
            Say.say("process " + arguments[1] + " did not do it (" + thrown.getMessage()
                    + "): its standard error stream says why; it must be a JVM of this user, with attaching allowed");
            System.exit(1);
        }
    }

    private static void tell(String pid, String told) throws Exception {
        Path jar = Path.of(Attach.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        VirtualMachine machine = VirtualMachine.attach(pid);
        try {
            machine.loadAgent(jar.toString(), told);
        } finally {
            machine.detach();
        }
    }
}
