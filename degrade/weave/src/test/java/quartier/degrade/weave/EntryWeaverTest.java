package quartier.degrade.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.util.List;
import org.junit.jupiter.api.Test;
import quartier.degrade.weave.EntryWeaver.Entry;

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
    }

    private static Object serve(Entry entry, String method, Class<?>[] types, Object... arguments) throws Exception {
        Loading loading = new Loading(Server.class.getName(), original -> EntryWeaver.weave(original, entry));
        Class<?> server = loading.loadClass(Server.class.getName());
        return server.getMethod(method, types).invoke(server.getConstructor().newInstance(), arguments);
    }

    private static Entry entry(String method, String descriptor) {
        return new Entry("sample", Server.class.getName().replace('.', '/'), method, descriptor);
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
    void anotherVersionOfTheServerIsLeftAlone() throws Exception {
        try (InputStream stream = Server.class.getResourceAsStream("EntryWeaverTest$Server.class")) {
            assertNull(EntryWeaver.weave(stream.readAllBytes(), entry("handle", "(I)Z")));
        }
    }
}
