package trial;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;

/** Clients of Apache Jackrabbit: documents are put, got (light) and searched for (heavy). */
final class Documents {
    private static final String AUTHORIZATION =
            "Basic " + Base64.getEncoder().encodeToString("admin:admin".getBytes(StandardCharsets.UTF_8));
    private static final String[] WORDS = {"light", "heavy", "server", "thread", "overload", "kernel", "slice", "lock"};

    private final HttpClient client = HttpClient.newHttpClient();
    private final int port;
    private final int nrDocuments;

    Documents(int port, int nrDocuments) {
        this.port = port;
        this.nrDocuments = nrDocuments;
    }

    static Application application() throws IOException {
        String war = Path.of("webapp", "target", "application.war").toString();
        // Or the database would write beside whoever starts it.
        return Application.in("webapp", "trial.WebappMain", war).with("-Dderby.stream.error.file=target/tmp/derby.log");
    }

    /** Fills the repository. */
    void put() throws IOException {
        for (int at = 0; at < nrDocuments; at++) {
            int status = send("PUT", "/repository/default/document" + at + ".txt", document(at)).statusCode();
            if (status / 100 != 2) {
                throw new IOException("document " + at + " was not taken: " + status);
            }
        }
    }

    private static String document(int at) {
        StringBuilder text = new StringBuilder("document " + at);
        for (int word = 0; word < 200; word++) {
            text.append(" ").append(WORDS[(at * 7 + word * word) % WORDS.length]).append(at % 10);
        }
        return text.toString();
    }

    /** Whether a document is what was put. */
    private boolean get(int at) throws IOException {
        var answer = send("GET", "/repository/default/document" + at % nrDocuments + ".txt", null);
        return answer.statusCode() == 200 && answer.body().equals(document(at % nrDocuments));
    }

    /** How many documents are found that have a name like this, each looked at: no index has them in lower case. */
    private int search() throws IOException {
        String query = "SELECT * FROM [nt:file] AS file WHERE LOWER(NAME(file)) LIKE 'document%7.txt'";
        String body = "<D:searchrequest xmlns:D=\"DAV:\"><JCR-SQL2><![CDATA[" + query + "]]></JCR-SQL2></D:searchrequest>";
        var answer = send("SEARCH", "/server/default/jcr:root", body);
        if (answer.statusCode() != 207) {
            throw new IOException("the search was not answered: " + answer.statusCode() + " " + answer.body());
        }
        return answer.body().split("<D:response>", -1).length - 1;
    }

    private HttpResponse<String> send(String method, String path, String body) throws IOException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://localhost:" + port + path))
                .header("Authorization", AUTHORIZATION)
                .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body));
        if (body != null) {
            request.header("Content-Type", method.equals("PUT") ? "text/plain" : "text/xml");
        }
        try {
            return client.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (InterruptedException interrupted) {
            throw new IOException(interrupted);
        }
    }

    /** Clients of both kinds, as "light" and "heavy", until so many documents and searches were answered. */
    Load load(int nrLight, int nrHeavy, int nrAnswers, int nrSearches) throws InterruptedException {
        int expected = (int) IntStream.range(0, nrDocuments).filter(at -> at % 10 == 7).count();
        AtomicInteger nrGot = new AtomicInteger();
        Load load = new Load(port);
        if (nrLight > 0) {
            load.clients(nrLight, "light", nrAnswers, connection -> get(nrGot.getAndIncrement()) ? null : "another document");
        }
        if (nrHeavy > 0) {
            load.clients(nrHeavy, "heavy", nrSearches, connection -> {
                int found = search();
                return found == expected ? null : found + " found instead of " + expected;
            });
        }
        return load.run();
    }

    /** Documents are held to so many milliseconds. */
    static String protect(double p95Millis) {
        return config("policy = \"protect\"\n").replace("[weave]", String.format(Locale.ROOT, """
            [protect]
            class = "light"
            p95_ms = %.3f

            [weave]""", p95Millis));
    }

    static String config(String policy) {
        return policy + """
            metrics_port = 0

            [weave]
            include = ["org.apache.jackrabbit.**", "org.apache.lucene.**"]

            [[class]]
            name = "light"
            methods = ["GET"]
            paths = "/repository/**"

            [[class]]
            name = "heavy"
            methods = ["SEARCH"]
            """;
    }
}
