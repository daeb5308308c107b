package tidelog.log;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Listings of partitions, kept for as long as their directories do not change: a stream looks with each trigger. An unchanged
 * directory costs two stats, its own and that of its last segment, which grows. One thread.
 */
final class SegmentLists {
    // A directory's time of change has ticks (2 s on FAT, some ms elsewhere). One that lies further back than this stands for
    // what was listed since: whatever changes now gets a later one.
    private static final long SETTLED_MS = 3000;

    private final Map<Path, Kept> kept = new HashMap<>();

    private record Kept(Object key, FileTime changed, List<Segment> segments) {}

    /** As {@code Segment.list}. */
    List<Segment> segments(Path directory) throws IOException {
        BasicFileAttributes status;
        try {
            status = Files.readAttributes(directory, BasicFileAttributes.class);
        } catch (IOException error) {
            return Segment.list(directory); // which says what is wrong
        }
        Kept known = kept.remove(directory);
        boolean isSame = known != null && known.key.equals(status.fileKey()) && known.changed.equals(status.lastModifiedTime());
        List<Segment> found = isSame ? grown(known.segments) : null;
        if (found == null) {
            found = Segment.list(directory);
        }
        if (System.currentTimeMillis() - status.lastModifiedTime().toMillis() > SETTLED_MS) {
            kept.put(directory, new Kept(status.fileKey(), status.lastModifiedTime(), found));
        }
        return found;
    }

    /** The segments with the last one's present size; null if that is another file by now. */
    private static List<Segment> grown(List<Segment> segments) {
        if (segments.isEmpty()) {
            return segments;
        }
        Segment last = segments.get(segments.size() - 1);
        BasicFileAttributes status;
        try {
            status = Files.readAttributes(last.file(".log"), BasicFileAttributes.class);
        } catch (IOException error) {
            return null;
        }
        if (!last.key().equals(status.fileKey())) {
            return null;
        }
        List<Segment> found = new ArrayList<>(segments);
        found.set(found.size() - 1, new Segment(last.directory(), last.baseOffset(), last.key(), status.size()));
        return found;
    }
}
