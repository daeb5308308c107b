package tidelog.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;

/** JSON as Java's maps, lists, texts and numbers, by the Jackson that Spark has. Any thread. */
final class Json {
    // PySpark 4.1 has offsets in a progress as Python shows them.
    private static final ObjectMapper MAPPER = new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(JsonParser.Feature.ALLOW_SINGLE_QUOTES);

    private Json() {}

    /** What the text says; null for what is no JSON. */
    static Object parsed(String text) {
        try {
            return MAPPER.readValue(text, Object.class);
        } catch (JsonProcessingException error) {
            return null;
        }
    }

    /** OptionException: the option is no JSON object. */
    static Map<String, Object> object(String name, String text) {
        if (!(parsed(text) instanceof Map<?, ?> found)) {
            throw new OptionException(name + " is no JSON object of topics");
        }
        Map<String, Object> made = new LinkedHashMap<>();
        found.forEach((key, value) -> made.put(key.toString(), value));
        return made;
    }

    /** A whole number that is a long; null for anything else. */
    static Long whole(Object value) {
        return value instanceof Integer || value instanceof Long ? Long.valueOf(((Number) value).longValue()) : null;
    }

    /** An object of texts; null for anything else. */
    static Map<String, String> texts(Object value) {
        if (!(value instanceof Map<?, ?> found) || !found.values().stream().allMatch(String.class::isInstance)) {
            return null;
        }
        Map<String, String> made = new LinkedHashMap<>();
        found.forEach((key, text) -> made.put(key.toString(), text.toString()));
        return made;
    }

    static String text(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
