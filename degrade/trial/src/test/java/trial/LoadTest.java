package trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What other tests count as failed requests is all that fail. */
@Timeout(60)
class LoadTest {
    private static final byte[] ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".getBytes(StandardCharsets.ISO_8859_1);

    /** The second request of each connection is read and not answered. */
    private static void serve(ServerSocket server, AtomicInteger nrRead) {
        try {
            while (true) {
                try (Socket connection = server.accept();
                        var reader = new BufferedReader(new InputStreamReader(connection.getInputStream()))) {
                    readRequest(reader, nrRead);
                    connection.getOutputStream().write(ANSWER);
                    readRequest(reader, nrRead);
                }
            }
        } catch (SocketException ended) {
            // The test is over.
        } catch (IOException thrown) {
            throw new AssertionError(thrown);
        }
    }

    private static void readRequest(BufferedReader reader, AtomicInteger nrRead) throws IOException {
        String line = reader.readLine();
        nrRead.addAndGet(line == null ? 0 : 1);
        while (line != null && !line.isEmpty()) {
            line = reader.readLine();
        }
    }

    @Test
    void aConnectionThatEndsBeforeItsAnswerIsAFailureAndNobodyAsksAgain() throws Exception {
        AtomicInteger nrRead = new AtomicInteger();
        try (ServerSocket server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
            Thread serving = new Thread(() -> serve(server, nrRead));
            serving.start();
            Load load = new Load(server.getLocalPort()).clients(1, "/any", 6).run();
            assertEquals(6, nrRead.get(), "each is asked once");
            assertEquals(3, load.failures().size(), load.failures().toString());
            assertTrue(load.failures().get(0).startsWith("/any: java.io.EOFException"), load.failures().toString());
        }
    }
}
