package quartier.degrade.why;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/** A request, among the JVM's own events and on their clock. */
@Name(RequestEvent.NAME)
@Label("Request")
@Category("Quartier")
@Description("A request, from the server's entry to its return")
@StackTrace(false)
final class RequestEvent extends Event {
    static final String NAME = "quartier.degrade.Request";

    @Label("Class")
    String workClass;

    @Label("CPU time, ns; -1 where it is not known")
    long cpu;

    @Label("Waited for a CPU, ns")
    long runQueue;

    @Label("Time slices")
    long slices;

    @Label("Held by the gate, ns")
    long held;

    @Label("The thread by the kernel's number; 0 where what the kernel says is not about this request")
    long kernelThread;

    @Label("Began, ns of the monotonic clock")
    long from;

    @Label("Ended, ns of the monotonic clock")
    long to;
}
