package quartier.degrade.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class AskedTest {
    private static String answered(String question) {
        return System.getProperty("quartier.degrade.answer." + question);
    }

    @Test
    void aQuestionHasAnAnswerOrARefusal() {
        Asked asked = new Asked("ask 1-a attach /srv/a file.toml");
        assertEquals("attach", asked.command);
        assertEquals("/srv/a file.toml", asked.rest);
        asked.answer(() -> "done");
        assertEquals("ok done", answered("1-a"));
        new Asked("ask 1-b why").answer(() -> {
            throw new IllegalStateException("no");
        });
        assertEquals("refused no", answered("1-b"));
        assertEquals("", new Asked("ask 1 why").rest);
        assertThrows(IllegalArgumentException.class, () -> new Asked("ask 1"));
    }

    @Test
    void oldAnswersAreForgotten() {
        for (int at = 0; at < 100; at++) {
            new Asked("ask 2-" + at + " status").answer(() -> "x");
        }
        assertNull(answered("2-0"));
        assertEquals("ok x", answered("2-99"));
        long nrKept = System.getProperties().stringPropertyNames().stream()
                .filter(name -> name.startsWith("quartier.degrade.answer.")).count();
        assertTrue(nrKept <= 8, nrKept + " are kept");
    }
}
