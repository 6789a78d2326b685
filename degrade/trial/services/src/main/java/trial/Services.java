package trial;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Node;

/** The seed's two services: a light one that computes, and a heavy one that parses a document and searches it. */
public final class Services {
    /** What any server can serve at once. */
    public static final String[] ALL = {
        "light", "heavy", "failing", "dying", "interrupted", "pooled", "scheduled", "joined", "promised", "virtual", "unseen",
        "chatty", "hunt", "hunted", "prodded", "stubborn", "thread"
    };
    /** What servers serve that can go on with a request later. */
    public static final String[] LATER = {"later", "again", "never"};
    public static final int LATER_MILLIS = 300;

    private static final int PROD_MILLIS = 20;
    private static final long INTERRUPT_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(10);
    private static final int FIBONACCI_OF = 27;
    private static final byte[] DOCUMENT = document(3000);

    private Services() {}

    /** Made when the first task is handed to it. */
    private static final class Pool {
        static final ExecutorService THREADS = Executors.newFixedThreadPool(8, Services::daemon);
        static final ScheduledExecutorService LATER = Executors.newScheduledThreadPool(2, Services::daemon);
        static final ForkJoinPool FORKING = new ForkJoinPool(2);
    }

    /** Ends the threads that were made: whoever made them is to go, with all of its classes. */
    public static void end() {
        Pool.THREADS.shutdown();
        Pool.LATER.shutdown();
        Pool.FORKING.shutdown();
        Clock.TIMER.cancel();
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    /** Made when something is to be done later. Its thread is no executor's: what it does is nobody's work. */
    private static final class Clock {
        static final Timer TIMER = new Timer("later", true);
    }

    /** Something like a thread that is killed: no exception, and nothing catches it. */
    private static final class Death extends Error {
        private static final long serialVersionUID = 1;
    }

    public static String run(String service) {
        return switch (service) {
            case "light" -> light();
            case "heavy" -> heavy();
            case "failing" -> throw new IllegalStateException("the application's own");
            case "dying" -> throw new Death();
            case "interrupted" -> interrupted();
            case "prodded" -> prodded();
            case "stubborn" -> untilInterrupted();
            case "pooled" -> result(Pool.THREADS.submit(Services::heavy));
            case "scheduled" -> result(Pool.LATER.schedule(Services::heavy, 1, TimeUnit.MILLISECONDS));
            case "joined" -> result(Pool.FORKING.submit(Services::heavy));
            case "promised" -> CompletableFuture.supplyAsync(Services::heavy).join();
            case "virtual" -> onVirtualThread();
            case "unseen" -> Unseen.look();
            case "chatty" -> chatty();
            case "thread" -> Thread.currentThread().getClass().getName();
            case "hunt", "hunted" -> Hunt.once();
            default -> throw new IllegalArgumentException(service);
        };
    }

    /** As one that asks a database next door for little, again and again: half of its time it waits, and never for long. */
    private static String chatty() {
        for (int question = 0; question < 30; question++) {
            fibonacci(FIBONACCI_OF - 4);
            LockSupport.parkNanos(100_000);
        }
        return "all answered";
    }

    /** An interrupt that comes while it works is still there when it is done. */
    private static String interrupted() {
        Thread.currentThread().interrupt();
        String answer = light();
        if (!Thread.interrupted()) {
            throw new IllegalStateException("the interrupt is lost");
        }
        return answer;
    }

    /** Another thread interrupts it, once, wherever it is then. */
    private static String prodded() {
        Thread worker = Thread.currentThread();
        later(PROD_MILLIS, worker::interrupt);
        return untilInterrupted();
    }

    /** Works until it is interrupted. An interrupt that somebody else has taken never comes. */
    private static String untilInterrupted() {
        long beganNanos = System.nanoTime();
        while (System.nanoTime() - beganNanos < INTERRUPT_PATIENCE_NANOS) {
            light();
            if (Thread.interrupted()) {
                return "interrupted";
            }
        }
        throw new IllegalStateException("the interrupt is lost");
    }

    private static String result(Future<String> future) {
        try {
            return future.get();
        } catch (InterruptedException | ExecutionException thrown) {
            throw new IllegalStateException(thrown);
        }
    }

    /** Newer than the JDK that this is compiled for. */
    private static String onVirtualThread() {
        try {
            var threads = (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
            return result(threads.submit(Services::heavy));
        } catch (ReflectiveOperationException none) {
            throw new IllegalStateException(none);
        }
    }

    public static void later(long millis, Runnable work) {
        Clock.TIMER.schedule(
                new TimerTask() {
                    @Override
                    public void run() {
                        work.run();
                    }
                },
                millis);
    }

    public static String light() {
        return "fibonacci " + fibonacci(FIBONACCI_OF);
    }

    private static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }

    public static String heavy() {
        try {
            var builder = DocumentBuilderFactory.newInstance().newDocumentBuilder();
            Node root = builder.parse(new ByteArrayInputStream(DOCUMENT)).getDocumentElement();
            return "found " + count(root, "freight 7");
        } catch (Exception thrown) {
            throw new IllegalStateException(thrown);
        }
    }

    private static int count(Node node, String wanted) {
        int nr = node.getNodeType() == Node.TEXT_NODE && node.getNodeValue().contains(wanted) ? 1 : 0;
        for (Node child = node.getFirstChild(); child != null; child = child.getNextSibling()) {
            nr += count(child, wanted);
        }
        return nr;
    }

    private static byte[] document(int nrOffers) {
        StringBuilder text = new StringBuilder("<offers>");
        for (int offer = 0; offer < nrOffers; offer++) {
            text.append("<offer id=\"").append(offer).append("\"><from>here</from><load>freight ")
                    .append(offer % 10).append("</load></offer>");
        }
        return text.append("</offers>").toString().getBytes(StandardCharsets.UTF_8);
    }
}
