package trial;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/**
 * A client's connection, kept for as long as the server keeps it. Nothing is asked twice: the JDK's own clients ask again when a connection
 * ends before its answer, and do not say so.
 */
final class Connection implements AutoCloseable {
    private static final int PATIENCE_MILLIS = 30_000;

    private final int port;
    /** Null until something is asked, and after the server has ended it. */
    private Socket socket;
    private InputStream input;

    Connection(int port) {
        this.port = port;
    }

    record Answer(int code, String retryAfter, String body) {}

    Answer get(String path) throws IOException {
        boolean isKept = false;
        try {
            ask(path);
            String[] status = line().split(" ");
            int code = Integer.parseInt(status[1]);
            Map<String, String> headers = headers();
            String body = new String(body(headers), StandardCharsets.UTF_8);
            isKept = isKept(status[0], headers);
            return new Answer(code, headers.get("Retry-After"), body);
        } finally {
            if (!isKept) {
                close();
            }
        }
    }

    private void ask(String path) throws IOException {
        if (socket == null) {
            socket = new Socket(InetAddress.getLoopbackAddress(), port);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(PATIENCE_MILLIS);
            input = new BufferedInputStream(socket.getInputStream());
        }
        String asked = "GET " + path + " HTTP/1.1\r\nHost: localhost:" + port + "\r\n\r\n";
        socket.getOutputStream().write(asked.getBytes(StandardCharsets.ISO_8859_1));
    }

    private String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = input.read(); next != '\n'; next = input.read()) {
            if (next < 0) {
                throw new EOFException("the connection ended where an answer was due");
            }
            line.write(next);
        }
        return line.toString(StandardCharsets.ISO_8859_1).strip();
    }

    private Map<String, String> headers() throws IOException {
        Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            headers.put(line.substring(0, colon), line.substring(colon + 1).strip());
        }
        return headers;
    }

    private byte[] body(Map<String, String> headers) throws IOException {
        if (headers.containsKey("Content-Length")) {
            return exactly(Integer.parseInt(headers.get("Content-Length")));
        }
        return isChunked(headers) ? chunks() : input.readAllBytes();
    }

    private byte[] chunks() throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        int length;
        do {
            length = Integer.parseInt(line().split(";")[0], 16);
            body.write(exactly(length));
            line();
        } while (length > 0);
        return body.toByteArray();
    }

    private byte[] exactly(int length) throws IOException {
        byte[] bytes = input.readNBytes(length);
        if (bytes.length < length) {
            throw new EOFException("the connection ended within an answer");
        }
        return bytes;
    }

    private static boolean isChunked(Map<String, String> headers) {
        return "chunked".equalsIgnoreCase(headers.get("Transfer-Encoding"));
    }

    /** Where nobody says how long the answer is, its end is the connection's. */
    private static boolean isKept(String version, Map<String, String> headers) {
        boolean hasEnd = headers.containsKey("Content-Length") || isChunked(headers);
        return hasEnd && version.equals("HTTP/1.1") && !"close".equalsIgnoreCase(headers.get("Connection"));
    }

    @Override
    public void close() throws IOException {
        if (socket != null) {
            socket.close();
            socket = null;
        }
    }
}
