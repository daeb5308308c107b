package tidelog.log;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Aborted transactions from {@code .txnindex} files, each from its first record to its marker. */
final class AbortedRanges {
    // int16 version, then int64 producer id, first offset, last offset, last stable offset
    private static final int ENTRY_BYTES = 34;

    private final Map<Long, List<long[]>> ranges = new HashMap<>();

    /**
     * Those that concern [from, until): of the segments in which that lies, and of those behind it. Files that are swapped
     * meanwhile, or deleted, are looked for anew: what one of them said may stand in another by then.
     */
    static AbortedRanges read(Path directory, long from, long until) throws IOException {
        List<Segment> segments = Segment.list(directory);
        while (true) {
            AbortedRanges found = read(segments, from, until);
            List<Segment> now = Segment.list(directory);
            if (Segment.areSame(segments, now)) {
                return found;
            }
            segments = now;
        }
    }

    private static AbortedRanges read(List<Segment> segments, long from, long until) throws IOException {
        AbortedRanges found = new AbortedRanges();
        for (Segment segment : segments.subList(Math.max(0, Segment.floor(segments, from)), segments.size())) {
            if (found.add(segment.file(".txnindex"), from, until)) {
                break;
            }
        }
        return found;
    }

    /** True: no later segment can have more. */
    private boolean add(Path path, long from, long until) throws IOException {
        ByteBuffer data;
        try {
            data = ByteBuffer.wrap(Files.readAllBytes(path));
        } catch (NoSuchFileException error) {
            return false;
        }
        // All versions first, as the reader in Python does. A torn entry at the end is left out.
        for (int at = 0; at + ENTRY_BYTES <= data.capacity(); at += ENTRY_BYTES) {
            if (data.getShort(at) != 0) {
                throw new CorruptLogException(path + ": an entry has the unknown version " + data.getShort(at));
            }
        }
        for (int at = 0; at + ENTRY_BYTES <= data.capacity(); at += ENTRY_BYTES) {
            long first = data.getLong(at + 10);
            long last = data.getLong(at + 18);
            if (last >= from && first < until) {
                ranges.computeIfAbsent(data.getLong(at + 2), producer -> new ArrayList<>()).add(new long[] {first, last});
            }
            if (data.getLong(at + 26) >= until) {
                return true;
            }
        }
        return false;
    }

    /** True if this transactional batch belongs to an aborted transaction. */
    boolean has(long producerId, long baseOffset) {
        for (long[] range : ranges.getOrDefault(producerId, List.of())) {
            if (range[0] <= baseOffset && baseOffset <= range[1]) {
                return true;
            }
        }
        return false;
    }
}
