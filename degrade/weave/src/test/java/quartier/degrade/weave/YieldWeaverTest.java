package quartier.degrade.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quartier.degrade.gate.Tally;

class YieldWeaverTest {
    private static final String SAMPLE = Sample.class.getName();

    private static Object call(Object target, String method, Object... arguments) {
        try {
            for (Method candidate : target.getClass().getMethods()) {
                if (candidate.getName().equals(method)) {
                    return candidate.invoke(target, arguments);
                }
            }
            throw new AssertionError("no method " + method);
        } catch (InvocationTargetException thrown) {
            throw new IllegalStateException(thrown.getCause());
        } catch (ReflectiveOperationException thrown) {
            throw new AssertionError(thrown);
        }
    }

    private static Object sample(Loading loading) throws ReflectiveOperationException {
        return loading.loadClass(SAMPLE).getConstructor().newInstance();
    }

    private static List<String> pointsOf(String method) throws Exception {
        List<Point> points = new ArrayList<>();
        Loading.yielding(SAMPLE, points).loadClass(SAMPLE);
        return points.stream()
                .filter(point -> point.method().equals(method))
                .map(point -> point.kind().name())
                .toList();
    }

    @Test
    void pointsAreAtEntriesAndLoopsWhereTimeCanBeSpent() throws Exception {
        assertEquals(List.of("ENTRY"), pointsOf("fibonacci"));
        assertEquals(List.of("LOOP", "ENTRY"), pointsOf("nestedLoops"));
        assertEquals(List.of("ENTRY"), pointsOf("leafLoop"));
        assertTrue(pointsOf("stateMachine").contains("LOOP"));
        assertEquals(List.of(), pointsOf("getter"));
        assertEquals(List.of(), pointsOf("<init>"));
        assertEquals(List.of(), pointsOf("<clinit>"));
    }

    @Test
    void leafLoopsGetPointsWhenAskedFor() throws Exception {
        List<Point> points = new ArrayList<>();
        try (InputStream stream = Sample.class.getResourceAsStream("Sample.class")) {
            new YieldWeaver(true).weave(stream.readAllBytes(), points::add);
        }
        assertTrue(points.toString().contains("#leafLoop:"), points.toString());
        assertEquals(2, points.stream().filter(point -> point.method().equals("leafLoop")).count());
        assertTrue(points.stream().allMatch(point -> point.line() > 0), points.toString());
    }

    @Test
    void wovenCodeDoesWhatItDidAndPassesPoints() throws Exception {
        Object sample = sample(Loading.yielding(Sample.class));
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> {
                assertEquals(8, call(sample, "fibonacci", 6));
                assertEquals(9, call(sample, "stateMachine", 0));
                assertEquals(Sample.nestedLoops(5), call(sample, "nestedLoops", 5));
            });
            assertTrue(hook.count("point") >= 25 + 2 + 5, hook.events.toString());
            assertEquals(0, hook.count("held"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"monitor", "synchronizedMethod", "locked", "ownLock", "tried", "stamped"})
    void nobodyYieldsWithWhatItHolds(String method) throws Exception {
        Object sample = sample(Loading.yielding(Sample.class));
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> {
                assertEquals(2, call(sample, method));
                long nrPoints = hook.count("point");
                // A synchronized method is entered with its monitor; an application's own lock has points in itself.
                int nrHeld = switch (method) {
                    case "synchronizedMethod" -> 6;
                    case "ownLock" -> 7;
                    default -> 5;
                };
                assertEquals(nrHeld, hook.count("held"), hook.events.toString());
                call(sample, "point");
                assertEquals(nrPoints + 6, hook.count("point"), "given back afterwards");
            });
        }
    }

    @Test
    void anExceptionGivesBackToo() throws Exception {
        Object sample = sample(Loading.yielding(Sample.class));
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> {
                try {
                    call(sample, "throwing");
                    throw new AssertionError("should have thrown");
                } catch (IllegalStateException expected) {
                    assertEquals("the sample's own", expected.getCause().getMessage());
                }
                call(sample, "point");
            });
            assertEquals(2, hook.count("held"), hook.events.toString());
            assertEquals(6, hook.count("point"), "given back afterwards");
        }
    }

    @Test
    void nobodyYieldsInAClassInitialiser() throws Exception {
        Loading loading = Loading.yielding(Sample.class);
        Object sample = sample(loading);
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> {
                try {
                    Class.forName(SAMPLE + "$Initialised", true, loading);
                } catch (ClassNotFoundException thrown) {
                    throw new AssertionError(thrown);
                }
                assertEquals(15, hook.count("held"), hook.events.toString());
                assertEquals(0, hook.count("point"));
                call(sample, "point");
                assertEquals(6, hook.count("point"));
            });
        }
    }

    @Test
    void aFaultOfOursIsNotTheProgramsOwn() throws Exception {
        Object sample = sample(Loading.yielding(Sample.class));
        try (RecordingHook hook = new RecordingHook()) {
            hook.thrown = new IllegalStateException("ours");
            hook.request(() -> assertEquals(2, call(sample, "fibonacci", 3)));
            assertEquals(5, hook.count("fault"));
        }
    }

    @Test
    void pointsCanBeChosenAndCounted() throws Exception {
        List<Point> points = new ArrayList<>();
        YieldWeaver weaver = new YieldWeaver(false, point -> point.method().equals("fibonacci"), point -> 3);
        Object sample = sample(new Loading(SAMPLE, original -> weaver.weave(original, points::add)));
        assertEquals(List.of("fibonacci"), points.stream().map(Point::method).distinct().toList());
        Tally.start();
        Tally.count(true);
        try (RecordingHook hook = new RecordingHook()) {
            Tally.begin();
            hook.request(() -> assertEquals(8, call(sample, "fibonacci", 6)));
            Tally.Counts counts = Tally.all().iterator().next();
            assertEquals(Thread.currentThread(), counts.thread);
            assertEquals(1, counts.request());
            assertEquals(List.of(0L, 0L, 0L, 25L), Arrays.stream(counts.copy()).boxed().toList());
            assertEquals(25, hook.count("point"), "what is counted is a point too");
            Tally.end();
            assertEquals(0, counts.request());
        } finally {
            Tally.stop();
        }
        call(sample, "fibonacci", 6);
        assertEquals(List.of(), List.copyOf(Tally.all()), "nothing is kept");
    }

    @Test
    void aPointIsNamedWithOrWithoutItsLine() {
        Point point = new Point("a.B", "run", 12, Point.Kind.LOOP);
        for (String name : List.of("a.B#run", "a.B#run:12", "a.B#run:12 loop")) {
            assertTrue(point.isNamedIn(Set.of("x", name)), name);
        }
        assertFalse(point.isNamedIn(Set.of("a.B#run:1", "a.B#run:12 entry", "a.B#ru", "run")));
    }

    @Test
    void whoIsNoRequestPassesUnasked() throws Exception {
        Object sample = sample(Loading.yielding(Sample.class));
        try (RecordingHook hook = new RecordingHook()) {
            call(sample, "fibonacci", 6);
            assertEquals(List.of(), hook.events);
        }
    }

    @Test
    void thereIsNothingToWeaveInAnInterface() throws IOException {
        try (InputStream stream = Runnable.class.getResourceAsStream("Runnable.class")) {
            assertNull(new YieldWeaver(true).weave(stream.readAllBytes(), point -> {}));
        }
    }

    /** Thousands of classes that nobody here wrote, each woven and then verified by the JVM. */
    @ParameterizedTest
    @ValueSource(classes = {org.objectweb.asm.tree.ClassNode.class, org.objectweb.asm.util.Printer.class,
        org.junit.jupiter.api.Test.class, org.junit.platform.commons.util.ReflectionUtils.class,
        org.junit.jupiter.engine.JupiterTestEngine.class})
    void theVerifierAcceptsWholeLibraries(Class<?> member) throws Exception {
        String jar = member.getProtectionDomain().getCodeSource().getLocation().getPath();
        String prefix = member.getPackageName().substring(0, member.getPackageName().indexOf('.', 4));
        List<Point> points = new ArrayList<>();
        Loading loading = new Loading(prefix, original -> weaver(original).weave(original, points::add));
        int nrClasses = 0;
        try (JarFile file = new JarFile(jar)) {
            for (var entry : (Iterable<java.util.jar.JarEntry>) file.stream()::iterator) {
                String name = entry.getName();
                if (name.endsWith(".class") && !name.startsWith("META-INF") && !name.endsWith("-info.class")) {
                    String className = name.substring(0, name.length() - 6).replace('/', '.');
                    try {
                        // Asking for methods links the class, and linking verifies it.
                        Class.forName(className, false, loading).getDeclaredMethods();
                        nrClasses++;
                    } catch (NoClassDefFoundError missing) {
                        // An optional dependency of the library that is not here.
                    }
                }
            }
        }
        assertTrue(nrClasses > 20 && points.size() > 50, jar + ": " + nrClasses + " classes, " + points.size());
    }

    /** By chance, but always the same: with counts, or without. */
    private static YieldWeaver weaver(byte[] classFile) {
        return new YieldWeaver(true, point -> true, classFile.length % 2 == 0 ? point -> 70_000 : null);
    }
}
