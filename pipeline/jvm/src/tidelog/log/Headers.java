package tidelog.log;

import java.io.IOException;
import java.nio.channels.FileChannel;

/**
 * Walks the headers of a file's whole batches, of all formats: reads chunks of some KiB and skips the bodies of large batches.
 * Fields of the present one are {@code Batch}'s, of {@code data} at {@code at}.
 */
final class Headers {
    private static final int CHUNK_BYTES = 8192;
    private static final int[] SMALLEST = {26, 34, Batch.OVERHEAD};

    final byte[] data = new byte[CHUNK_BYTES];
    int at;
    /** Of the present batch. */
    long position;
    long size;
    private final FileChannel file;
    private final String name;
    private final long end;
    private long chunkStart;
    private int chunkSize;

    /** From a batch that begins at {@code position} up to the present end of the file. */
    Headers(FileChannel file, String name, long position) throws IOException {
        this.file = file;
        this.name = name;
        this.position = position;
        this.end = file.size();
        this.chunkStart = position;
    }

    /**
     * Step to the next header; false where no whole batch follows, or zeros up to the end. CorruptLogException: that can be none.
     */
    boolean next() throws IOException {
        position += size;
        size = 0;
        if (end - position < SMALLEST[0]) {
            return false;
        }
        long left = chunkStart + chunkSize - position;
        if (left < Batch.OVERHEAD && chunkStart + chunkSize < end) {
            chunkStart = position;
            chunkSize = Segment.read(file, position, data, 0, (int) Math.min(CHUNK_BYTES, end - position));
            left = chunkSize;
        }
        at = (int) (position - chunkStart);
        if (left < SMALLEST[0]) {
            return false; // the file was truncated under the reader
        }
        int magic = Batch.magic(data, at);
        if (magic == 2 && left < Batch.OVERHEAD) {
            return false;
        }
        long claimed = Batch.size(data, at);
        if (magic > 2 || claimed < SMALLEST[magic]) {
            if (magic == 0 && claimed == Batch.LOG_OVERHEAD && Damage.zeros(file, position) >= end - position) {
                return false; // room that an active segment has reserved
            }
            throw new CorruptLogException(name + ": a batch of format " + magic + " and " + claimed + " bytes at " + position
                + "; `tidelog log verify` says more");
        }
        if (claimed > end - position || magic == 1 && left < SMALLEST[1]) {
            return false;
        }
        size = claimed;
        return true;
    }
}
