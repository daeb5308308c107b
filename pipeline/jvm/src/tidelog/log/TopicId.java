package tidelog.log;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads {@code partition.metadata}, which says of which topic a partition's directory is, by id; Kafka before 2.8 does not write
 * it.
 */
final class TopicId {
    private static final Pattern CONTENT = Pattern.compile("version:\\s+[0-9]{1,5}\\r?\\ntopic_id:\\s+([A-Za-z0-9_-]{22})\\s*");
    private static final String ZERO = "A".repeat(22);

    private TopicId() {}

    /** The topic's id as Kafka spells it; empty without the file. LogException: it is damaged. */
    static String read(Path directory) throws IOException {
        Path path = directory.resolve("partition.metadata");
        Matcher content;
        try {
            content = CONTENT.matcher(Files.readString(path));
        } catch (NoSuchFileException error) {
            return "";
        } catch (java.nio.charset.CharacterCodingException error) {
            throw new LogException(path + ": not a text file");
        }
        // 22 characters hold 132 bits, of which the last four must be 0.
        if (!content.matches() || content.group(1).equals(ZERO)
            || !encoded(Base64.getUrlDecoder().decode(content.group(1))).equals(content.group(1))) {
            throw new LogException(path + ": not `version: N` and `topic_id: ID` on two lines");
        }
        return content.group(1);
    }

    private static String encoded(byte[] id) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(id);
    }

    /** As {@code read}; empty where the file is damaged or the directory is on its way out. */
    static String orEmpty(Path directory) throws IOException {
        try {
            return read(directory);
        } catch (LogException error) {
            return "";
        }
    }
}
