package trial;

import static net.bytebuddy.matcher.ElementMatchers.isMethod;
import static net.bytebuddy.matcher.ElementMatchers.named;

import java.lang.instrument.Instrumentation;
import java.util.concurrent.atomic.AtomicLong;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.agent.builder.AgentBuilder.RedefinitionStrategy;
import net.bytebuddy.asm.Advice;

/** An agent of somebody else's, which changes the classes that ours does too. Says at the end how many calls it saw. */
public final class OtherAgent {
    public static final AtomicLong NR_CALLS = new AtomicLong();
    public static final AtomicLong NR_REQUESTS = new AtomicLong();

    /** What it puts into the application. */
    public static final class Calls {
        private Calls() {}

        @Advice.OnMethodEnter
        static void enter() {
            NR_CALLS.incrementAndGet();
        }
    }

    /** What it puts into the server. */
    public static final class Requests {
        private Requests() {}

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit() {
            NR_REQUESTS.incrementAndGet();
        }
    }

    private OtherAgent() {}

    public static void premain(String arguments, Instrumentation instrumentation) {
        new AgentBuilder.Default()
                .disableClassFormatChanges()
                .with(RedefinitionStrategy.RETRANSFORMATION)
                .type(named("trial.Services"))
                .transform((builder, type, loader, module, domain) ->
                        builder.visit(Advice.to(Calls.class).on(isMethod())))
                .type(named("org.apache.catalina.core.StandardEngineValve"))
                .transform((builder, type, loader, module, domain) ->
                        builder.visit(Advice.to(Requests.class).on(named("invoke"))))
                .installOn(instrumentation);
        Runtime.getRuntime().addShutdownHook(new Thread(() ->
                System.err.println("the other agent saw " + NR_CALLS + " calls and " + NR_REQUESTS + " requests")));
    }
}
