package quartier.degrade.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.util.CheckClassAdapter;
import quartier.degrade.gate.Gate;

class TaskWeaverTest {
    static List<String> owners() {
        return TaskWeaver.OWNERS.stream()
                .filter(owner -> Object.class.getResource("/" + owner + ".class") != null)
                .sorted()
                .toList();
    }

    /** This JDK's own classes: the JVM itself verifies none of them. */
    @ParameterizedTest
    @MethodSource("owners")
    void theVerifierAcceptsTheJdksClasses(String owner) throws Exception {
        try (InputStream stream = Object.class.getResourceAsStream("/" + owner + ".class")) {
            byte[] woven = TaskWeaver.weave(stream.readAllBytes());
            assertNotNull(woven, owner);
            StringWriter problems = new StringWriter();
            CheckClassAdapter.verify(new ClassReader(woven), false, new PrintWriter(problems));
            assertEquals("", problems.toString());
        }
    }

    @Test
    void aTaskOfARequestIsAPartOfIt() {
        Runnable task = () -> Gate.point();
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> Gate.handOver(task));
            hook.events.clear();
            Runnable part = Gate.task(task, task);
            part.run();
            assertEquals(List.of("part of whole", "point", "end part"), hook.events);
            assertSame(task, Gate.task(task, task), "once");
        }
    }

    @Test
    void aTaskThatFailsEndsItsPart() {
        IllegalStateException own = new IllegalStateException("the task's own");
        Runnable task = () -> {
            throw own;
        };
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> Gate.handOver(task));
            hook.events.clear();
            assertSame(own, org.junit.jupiter.api.Assertions.assertThrows(
                    IllegalStateException.class, Gate.task(task, task)::run));
            assertEquals(List.of("part of whole", "end part"), hook.events);
        }
    }

    @Test
    void aTaskOfNobodysIsItself() {
        Runnable task = () -> Gate.point();
        try (RecordingHook hook = new RecordingHook()) {
            Gate.handOver(task);
            assertSame(task, Gate.task(task, task));
            task.run();
            assertEquals(List.of(), hook.events);
        }
        assertNull(Gate.task("key", null), "and without an agent");
    }

    @Test
    void tasksInTasksAreOnePart() {
        Object outer = new Object();
        Object inner = new Object();
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> {
                Gate.handOver(outer);
                Gate.handOver(inner);
            });
            hook.events.clear();
            Gate.beginTask(outer);
            Gate.beginTask(inner);
            Gate.endTask();
            Gate.point();
            Gate.endTask();
            Gate.point();
            Gate.endTask();
            assertEquals(List.of("part of whole", "point", "end part"), hook.events);
        }
    }

    /** A thread pool of a server that takes a request in a task of the one before. */
    @Test
    void aRequestInATaskIsNoPartOfIt() {
        Object task = new Object();
        try (RecordingHook hook = new RecordingHook()) {
            hook.request(() -> Gate.handOver(task));
            hook.events.clear();
            Gate.beginTask(task);
            hook.request(Gate::point);
            Gate.point();
            Gate.endTask();
            assertEquals(
                    List.of("part of whole", "end part", "begin test request response", "point", "end"), hook.events);
        }
    }
}
