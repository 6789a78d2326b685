package quartier.degrade.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void whateverANameHasInItItStaysAText() {
        assertEquals("\"\\\"\\\\\\n\\u0001é{[\"", Json.of("\"\\\n\u0001é{["));
    }

    @Test
    void mapsAndListsHaveCommasBetween() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("a", List.of());
        map.put("b", List.of(List.of(1, 2L), Map.of()));
        map.put("c", null);
        map.put("d", true);
        map.put("e{", Arrays.asList(null, "[", "x"));
        assertEquals("{\"a\":[],\"b\":[[1,2],{}],\"c\":null,\"d\":true,\"e{\":[null,\"[\",\"x\"]}", Json.of(map));
    }

    @Test
    void numbersAreShortAndWhatIsNoneIsNotKnown() {
        assertEquals("[1.235,2,0,null,null,-0.5]",
                Json.of(List.of(1.23456, 2.0, 1e-9, Double.NaN, Double.POSITIVE_INFINITY, -0.5)));
        assertEquals("null", Json.of(Json.millis(OptionalLong.empty())));
        assertEquals("1.5", Json.of(Json.millis(OptionalLong.of(1_500_000))));
    }
}
