import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;

/** Requests of which it is known where their time goes. Prints its port. */
public final class Serves {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final Object MONITOR = new Object();
    private static final ReentrantLock LOCK = new ReentrantLock();

    private interface Work {
        void run() throws InterruptedException, IOException;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            // Nothing to do: whoever is still here keeps the JVM from ending.
            return;
        }
        // Head and body of an answer are two packets; without this the second waits 40 ms for the first to be confirmed.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 100);
        server.setExecutor(Executors.newFixedThreadPool(32));
        serve(server, "/light", () -> burn(1));
        serve(server, "/burn", () -> burn(20));
        serve(server, "/sleep", () -> Thread.sleep(50));
        int slow = slow();
        serve(server, "/socket", () -> {
            try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), slow)) {
                socket.getInputStream().read();
            }
        });
        serve(server, "/monitor", () -> {
            synchronized (MONITOR) {
                Thread.sleep(10);
            }
        });
        serve(server, "/lock", () -> {
            LOCK.lock();
            try {
                Thread.sleep(10);
            } finally {
                LOCK.unlock();
            }
        });
        server.start();
        System.out.println("port " + server.getAddress().getPort());
    }

    /** The port of a server that answers each after 20 ms. */
    private static int slow() throws IOException {
        ServerSocket server = new ServerSocket(0, 100, InetAddress.getLoopbackAddress());
        Thread thread = new Thread(() -> {
            while (true) {
                try {
                    Socket socket = server.accept();
                    new Thread(() -> answer(socket)).start();
                } catch (IOException thrown) {
                    return;
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
        return server.getLocalPort();
    }

    private static void answer(Socket socket) {
        try (socket) {
            Thread.sleep(20);
            socket.getOutputStream().write(1);
        } catch (IOException | InterruptedException gone) {
            // Whoever has asked has gone.
        }
    }

    private static void serve(HttpServer server, String path, Work work) {
        server.createContext(path, exchange -> {
            try (exchange) {
                work.run();
                byte[] answer = "done".getBytes();
                exchange.sendResponseHeaders(200, answer.length);
                exchange.getResponseBody().write(answer);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        });
    }

    /** CPU time of this thread, whatever else the machine does. */
    private static void burn(int millis) {
        long until = THREADS.getCurrentThreadCpuTime() + millis * 1_000_000L;
        int sum = 0;
        while (THREADS.getCurrentThreadCpuTime() < until) {
            sum += fibonacci(12);
        }
        if (sum == 0) {
            throw new AssertionError();
        }
    }

    private static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }
}
