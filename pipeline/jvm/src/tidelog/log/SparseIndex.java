package tidelog.log;

import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * An index file of a segment, bisected where it lies, a page at a time. It is not mapped into memory: its daemon cuts the
 * reserved room off when it rolls the segment, and touching a page that a file has no more is a fault.
 *
 * <p>An index may be missing, end in zeros, be behind its file, or be that of a file which cleaning has just replaced: what it
 * says is to be held against the batch that it names.
 */
final class SparseIndex implements Closeable {
    /**
     * Sizes of entries: {@code .index} has int32 relative offset and int32 position, {@code .timeindex} int64 ms and int32
     * offset.
     */
    static final int OFFSET_ENTRY = 8;
    static final int TIME_ENTRY = 12;

    private static final int PAGE_BYTES = 4096;

    private final FileChannel file;
    private final Segment segment;
    private final int entryBytes;
    private final int perPage;
    private final long count;
    private final byte[] page = new byte[PAGE_BYTES];
    private long pageNumber = -1;
    private int pageSize;

    private SparseIndex(Segment segment, String suffix, int entryBytes) throws IOException {
        this.segment = segment;
        this.entryBytes = entryBytes;
        this.perPage = PAGE_BYTES / entryBytes;
        this.file = opened(segment.file(suffix));
        this.count = file == null ? 0 : file.size() / entryBytes;
    }

    /** The segment's offset index; one that cannot be opened has no entries. */
    static SparseIndex offsets(Segment segment) throws IOException {
        return new SparseIndex(segment, ".index", OFFSET_ENTRY);
    }

    private static FileChannel opened(Path path) {
        try {
            return FileChannel.open(path, StandardOpenOption.READ);
        } catch (IOException error) {
            return null;
        }
    }

    /** The batch that begins at {@code position} ends with {@code lastOffset}. */
    record Entry(long lastOffset, long position) {}

    /** The greatest entry at or below that offset, or null. */
    Entry floor(long offset) throws IOException {
        return entry(bisect(offset - segment.baseOffset(), 0, true) - 1);
    }

    /** The first entry at or above that offset, or null. */
    Entry ceiling(long offset) throws IOException {
        return entry(bisect(offset - segment.baseOffset(), 0, false));
    }

    /** The first entry whose batch begins at that byte or behind it, or null. */
    Entry atPosition(long position) throws IOException {
        return entry(bisect(position, 4, false));
    }

    /** Number of entries whose int32 at {@code field} is below {@code wanted}, or is at it, if {@code orAt}. */
    private long bisect(long wanted, int field, boolean orAt) throws IOException {
        long low = 0;
        long high = count;
        while (low < high) {
            long middle = (low + high) >>> 1;
            int at = locate(middle);
            long value = at < 0 ? Long.MAX_VALUE : Batch.int32(page, at + field);
            if (at >= 0 && !isWritten(Batch.int32(page, at + 4))) {
                value = Long.MAX_VALUE;
            }
            if (value < wanted || orAt && value == wanted) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    // No entry names the segment's first batch (position 0), so that zeros are room that is reserved.
    private boolean isWritten(int position) {
        return position > 0 && position < segment.size();
    }

    private Entry entry(long number) throws IOException {
        int at = number < 0 || number >= count ? -1 : locate(number);
        if (at < 0) {
            return null;
        }
        int relative = Batch.int32(page, at);
        int position = Batch.int32(page, at + 4);
        return relative < 0 || !isWritten(position) ? null : new Entry(segment.baseOffset() + relative, position);
    }

    /** Where the entry lies in {@code page}; −1 if the daemon has cut it off meanwhile. */
    private int locate(long number) throws IOException {
        if (number / perPage != pageNumber) {
            pageNumber = number / perPage;
            pageSize = Segment.read(file, pageNumber * perPage * entryBytes, page, 0, perPage * entryBytes);
        }
        int at = (int) (number % perPage) * entryBytes;
        return at + entryBytes > pageSize ? -1 : at;
    }

    @Override
    public void close() throws IOException {
        if (file != null) {
            file.close();
        }
    }

    /** Base offset of the batch of format 2 that the entry names; −1 if none that ends there begins there. */
    static long batchStart(FileChannel file, Entry entry) throws IOException {
        byte[] head = new byte[Batch.OVERHEAD];
        int size = Segment.read(file, entry.position, head, 0, head.length);
        return size == head.length && Batch.magic(head, 0) == 2 && Batch.endsAt(head, 0, size, entry.lastOffset)
            ? Batch.baseOffset(head, 0) : -1;
    }

    /** Position from which to read for the offset: a batch begins there, and none that holds the offset lies before it. */
    static long startPosition(FileChannel file, Segment segment, long offset) throws IOException {
        Entry entry;
        try (SparseIndex index = offsets(segment)) {
            entry = index.floor(offset);
        }
        if (entry == null || entry.lastOffset > offset) {
            return 0;
        }
        byte[] head = new byte[Batch.OVERHEAD];
        int size = Segment.read(file, entry.position, head, 0, head.length);
        return Batch.endsAt(head, 0, size, entry.lastOffset) ? entry.position : 0;
    }

    /**
     * Position of a batch before which no record has that timestamp (ms) or a later one, by the time index; 0 if that is no help.
     */
    static long behind(FileChannel file, Segment segment, long timestamp) throws IOException {
        long time = 0;
        int relative = 0;
        try (SparseIndex index = new SparseIndex(segment, ".timeindex", TIME_ENTRY)) {
            long low = 0;
            long high = index.count;
            while (low < high) {
                long middle = (low + high) >>> 1;
                int at = index.locate(middle);
                // The room that an active segment has reserved is zeros.
                if (at >= 0 && Batch.int64(index.page, at) > 0 && Batch.int64(index.page, at) < timestamp) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            int at = low > 0 ? index.locate(low - 1) : -1;
            if (at >= 0) {
                time = Batch.int64(index.page, at);
                relative = Batch.int32(index.page, at + 8);
            }
        }
        if (time <= 0 || time >= timestamp || relative < 0) {
            return 0;
        }
        // An index of another file, or of any bytes, would hide records.
        long offset = segment.baseOffset() + relative;
        long position = startPosition(file, segment, offset);
        try {
            Headers headers = new Headers(file, segment.toString(), position);
            while (headers.next()) {
                if (Batch.lastOffset(headers.data, headers.at) >= offset) {
                    return Batch.maxTimestamp(headers.data, headers.at) == time ? position : 0;
                }
            }
        } catch (CorruptLogException error) {
            return 0;
        }
        return 0;
    }
}
