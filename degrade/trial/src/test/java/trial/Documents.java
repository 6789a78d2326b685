package trial;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** Clients of Apache Jackrabbit: documents are put, got (light) and searched for (heavy). */
final class Documents {
    private static final String AUTHORIZATION =
            "Basic " + Base64.getEncoder().encodeToString("admin:admin".getBytes(StandardCharsets.UTF_8));
    private static final String[] WORDS = {"light", "heavy", "server", "thread", "overload", "kernel", "slice", "lock"};

    private final HttpClient client = HttpClient.newHttpClient();
    private final String server;
    private final int nrDocuments;

    Documents(int port, int nrDocuments) {
        server = "http://localhost:" + port;
        this.nrDocuments = nrDocuments;
    }

    static Application application() throws IOException {
        String war = Path.of("webapp", "target", "application.war").toString();
        // Or the database would write beside whoever starts it.
        return Application.in("webapp", "trial.WebappMain", war).with("-Dderby.stream.error.file=target/tmp/derby.log");
    }

    /** Fills the repository. */
    void put() throws IOException, InterruptedException {
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
    boolean get(int at) throws IOException, InterruptedException {
        var answer = send("GET", "/repository/default/document" + at % nrDocuments + ".txt", null);
        return answer.statusCode() == 200 && answer.body().equals(document(at % nrDocuments));
    }

    /** How many documents are found that have a name like this, each looked at: no index has them in lower case. */
    int search() throws IOException, InterruptedException {
        String query = "SELECT * FROM [nt:file] AS file WHERE LOWER(NAME(file)) LIKE 'document%7.txt'";
        String body = "<D:searchrequest xmlns:D=\"DAV:\"><JCR-SQL2><![CDATA[" + query + "]]></JCR-SQL2></D:searchrequest>";
        var answer = send("SEARCH", "/server/default/jcr:root", body);
        if (answer.statusCode() != 207) {
            throw new IOException("the search was not answered: " + answer.statusCode() + " " + answer.body());
        }
        return answer.body().split("<D:response>", -1).length - 1;
    }

    private HttpResponse<String> send(String method, String path, String body) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(server + path))
                .header("Authorization", AUTHORIZATION)
                .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body));
        if (body != null) {
            request.header("Content-Type", method.equals("PUT") ? "text/plain" : "text/xml");
        }
        return client.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    /** What came of many clients of both kinds. */
    record Outcome(List<Long> lightNanos, int nrSearches, double seconds, List<String> failures) {
        double lightMillis(double quantile) {
            long[] sorted = lightNanos.stream().mapToLong(nanos -> nanos).sorted().toArray();
            return sorted[(int) Math.min(sorted.length - 1, quantile * sorted.length)] / 1e6;
        }

        @Override
        public String toString() {
            return String.format("%d documents, p50 %.1f ms, p95 %.1f ms, p99 %.1f ms; %.1f searches/s, failures %s",
                    lightNanos.size(), lightMillis(0.5), lightMillis(0.95), lightMillis(0.99), nrSearches / seconds,
                    failures);
        }
    }

    /** Each client asks again when it is answered, until so many documents and searches were answered. */
    Outcome load(int nrLight, int nrHeavy, int nrAnswers, int nrSearchesMin) throws InterruptedException {
        int expected = (int) java.util.stream.IntStream.range(0, nrDocuments).filter(at -> at % 10 == 7).count();
        ConcurrentLinkedQueue<Long> lightNanos = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
        AtomicInteger nrGot = new AtomicInteger();
        AtomicInteger nrSearches = new AtomicInteger();
        AtomicBoolean stopped = new AtomicBoolean();
        List<Thread> threads = new ArrayList<>();
        long beganNanos = System.nanoTime();
        for (int nr = 0; nr < nrLight + nrHeavy; nr++) {
            boolean isLight = nr < nrLight;
            threads.add(new Thread(() -> {
                try {
                    while (!stopped.get()) {
                        long sentNanos = System.nanoTime();
                        if (isLight) {
                            if (!get(nrGot.getAndIncrement())) {
                                failures.add("another document");
                            }
                            lightNanos.add(System.nanoTime() - sentNanos);
                        } else {
                            int found = search();
                            if (found != expected) {
                                failures.add(found + " found instead of " + expected);
                            }
                            nrSearches.incrementAndGet();
                        }
                        if (lightNanos.size() >= nrAnswers && (nrHeavy == 0 || nrSearches.get() >= nrSearchesMin)) {
                            stopped.set(true);
                        }
                    }
                } catch (IOException | InterruptedException thrown) {
                    failures.add(thrown.toString());
                    stopped.set(true);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        double seconds = (System.nanoTime() - beganNanos) / 1e9;
        return new Outcome(List.copyOf(lightNanos), nrSearches.get(), seconds, List.copyOf(failures));
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

    static String sorted(List<Double> values) {
        return Arrays.toString(values.stream().sorted().map(value -> String.format("%.2f", value)).toArray());
    }
}
