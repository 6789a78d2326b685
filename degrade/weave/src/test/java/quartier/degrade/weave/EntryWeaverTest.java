package quartier.degrade.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.util.List;
import org.junit.jupiter.api.Test;
import quartier.degrade.weave.EntryWeaver.Entry;
import quartier.degrade.weave.EntryWeaver.Kind;

class EntryWeaverTest {
    /** Something like a server. */
    public static final class Server {
        public boolean handle(String request, StringBuilder response) {
            // A loop at the very beginning: its frame is where ours would be.
            while (response.length() < 2) {
                response.append(request);
            }
            if (request.isEmpty()) {
                throw new IllegalStateException("the server's own");
            }
            return false;
        }

        public void both(StringBuilder exchange) {
            exchange.append(handle("x", exchange));
        }

        public boolean withMore(String request, StringBuilder response, Integer callback) {
            return handle(request, response);
        }

        public void recycle() {}

        public void delegate(long unused, String handler) {}

        @Override
        public String toString() {
            return "server";
        }
    }

    private static Object serve(Entry entry, String method, Class<?>[] types, Object... arguments) throws Exception {
        Loading loading = new Loading(Server.class.getName(), original -> EntryWeaver.weave(original, List.of(entry)));
        Class<?> server = loading.loadClass(Server.class.getName());
        return server.getMethod(method, types).invoke(server.getConstructor().newInstance(), arguments);
    }

    private static Entry entry(String method, String descriptor) {
        return new Entry(Kind.SERVE, "sample", Server.class.getName().replace('.', '/'), method, descriptor);
    }

    private static final Entry HANDLE = entry("handle", "(Ljava/lang/String;Ljava/lang/StringBuilder;)Z");
    private static final Class<?>[] TYPES = {String.class, StringBuilder.class};

    @Test
    void aRequestBeginsAndEnds() throws Exception {
        try (RecordingHook hook = new RecordingHook()) {
            assertEquals(false, serve(HANDLE, "handle", TYPES, "aa", new StringBuilder("b")));
            assertEquals(List.of("begin sample aa b", "end"), hook.events);
        }
    }

    @Test
    void aRequestThatFailsEndsToo() {
        try (RecordingHook hook = new RecordingHook()) {
            var thrown = assertThrows(
                    InvocationTargetException.class, () -> serve(HANDLE, "handle", TYPES, "", new StringBuilder("bb")));
            assertEquals("the server's own", thrown.getCause().getMessage());
            assertEquals(List.of("begin sample  bb", "end"), hook.events);
        }
    }

    @Test
    void aRequestThatIsSentAwayIsHandledAndNeverSeen() throws Exception {
        try (RecordingHook hook = new RecordingHook()) {
            hook.rejects = true;
            StringBuilder response = new StringBuilder();
            assertEquals(true, serve(HANDLE, "handle", TYPES, "aa", response));
            assertEquals("", response.toString());
            assertEquals(List.of("begin sample aa "), hook.events);
            hook.rejects = false;
            serve(HANDLE, "handle", TYPES, "aa", response);
            assertEquals("end", hook.events.get(2), "the next one is not taken for a part of it");
        }
    }

    @Test
    void oneParameterMayBeBoth() throws Exception {
        try (RecordingHook hook = new RecordingHook()) {
            Entry both = entry("both", "(Ljava/lang/StringBuilder;)V");
            serve(both, "both", new Class<?>[] {StringBuilder.class}, new StringBuilder());
            assertEquals(2, hook.events.size(), hook.events.toString());
        }
    }

    @Test
    void whatElseTheServerGivesIsPassedOn() throws Exception {
        try (RecordingHook hook = new RecordingHook()) {
            Entry entry = entry("withMore", null);
            Class<?>[] types = {String.class, StringBuilder.class, Integer.class};
            serve(entry, "withMore", types, "aa", new StringBuilder("b"), 7);
            assertEquals(List.of("begin sample aa b 7", "end"), hook.events);
        }
    }

    @Test
    void aRequestGoesOnAndFinishes() throws Exception {
        String owner = Server.class.getName().replace('.', '/');
        try (RecordingHook hook = new RecordingHook()) {
            serve(new Entry(Kind.RESUME, "s", owner, "recycle", null), "recycle", new Class<?>[0]);
            assertEquals(List.of("resume s", "end"), hook.events);
            hook.events.clear();
            serve(new Entry(Kind.FINISH, "s", owner, "recycle", "()V"), "recycle", new Class<?>[0]);
            assertEquals(List.of("finish s"), hook.events);
        }
    }

    @Test
    void whoHandlesARequestIsSaidWithinOne() throws Exception {
        String owner = Server.class.getName().replace('.', '/');
        Entry delegate = new Entry(Kind.DELEGATE, "s", owner, "delegate", null);
        Entry handle = new Entry(Kind.HANDLE, "s", owner, "delegate", null);
        Class<?>[] types = {long.class, String.class};
        try (RecordingHook hook = new RecordingHook()) {
            serve(delegate, "delegate", types, 1L, "controller");
            assertEquals(List.of(), hook.events, "outside of a request it is nobody's affair");
            quartier.degrade.gate.Gate.begin("test", "r", "r", null);
            serve(delegate, "delegate", types, 1L, "controller");
            serve(handle, "delegate", types, 1L, "controller");
            quartier.degrade.gate.Gate.end();
            assertEquals(List.of("begin test r r", "handler s controller", "handler s server", "end"), hook.events);
        }
    }

    @Test
    void whoLooksForConnectionsIsHeardOfHoweverThatEnds() throws Exception {
        String owner = Server.class.getName().replace('.', '/');
        Entry look = new Entry(Kind.LOOK, "s", owner, "handle", null);
        try (RecordingHook hook = new RecordingHook()) {
            serve(look, "handle", TYPES, "aa", new StringBuilder("b"));
            assertThrows(InvocationTargetException.class, () -> serve(look, "handle", TYPES, "", new StringBuilder("bb")));
            serve(new Entry(Kind.ANSWER, "s", owner, "recycle", null), "recycle", new Class<?>[0]);
            serve(new Entry(Kind.AWAIT, "s", owner, "recycle", null), "recycle", new Class<?>[0]);
            serve(new Entry(Kind.SELECT, "s", owner, "recycle", null), "recycle", new Class<?>[0]);
            serve(new Entry(Kind.SELECTED, "s", owner, "recycle", null), "recycle", new Class<?>[0]);
            assertEquals(
                    List.of("looks server", "looked server", "looks server", "looked server", "answers server", "awaits server",
                            "selects server", "selected server"),
                    hook.events);
        }
        serve(look, "handle", TYPES, "aa", new StringBuilder("b"));
    }

    @Test
    void anotherVersionOfTheServerIsLeftAlone() throws Exception {
        try (InputStream stream = Server.class.getResourceAsStream("EntryWeaverTest$Server.class")) {
            assertNull(EntryWeaver.weave(stream.readAllBytes(), List.of(entry("handle", "(I)Z"))));
        }
    }
}
