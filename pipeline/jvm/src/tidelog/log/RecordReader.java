package tidelog.log;

import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Iterates over the records of a partition's offsets [from, until) in order, from its segment files, whatever their daemon does
 * to them meanwhile. One thread; blocks; holds one file open.
 *
 * <pre>
 * try (var records = new RecordReader(partition, from, until, wanted, Filter.ALL, options)) {
 *     while (records.next()) {
 *         if (records.keyLength() >= 0) use(records.buffer(), records.keyStart(), records.keyLength());
 *     }
 * }
 * </pre>
 *
 * <p>Transaction markers are no records. What is not wanted is not copied: a value is walked over, a batch whose timestamps are
 * outside of the filter is left out by its header behind its checksum, and where the header says all that is wanted, its records
 * are neither decompressed nor walked.
 */
public final class RecordReader implements Closeable {
    private final ReadOptions options;
    private final Partition partition;
    private final long from;
    private final long until;
    private final BatchStream batches;
    private final Records records;
    private AbortedRanges aborted;

    public RecordReader(Partition partition, long from, long until, Columns wanted, Filter filter, ReadOptions options) {
        this.partition = partition;
        this.from = from;
        this.until = until;
        this.options = options;
        this.batches = new BatchStream(partition, from, until, options);
        this.records = new Records(from, until, wanted, filter, options);
    }

    /** Step to the next record; false: there is none. CorruptLogException, DataLostException, UnsupportedFormatException. */
    public boolean next() throws IOException {
        while (true) {
            try {
                if (records.next()) {
                    return true;
                }
            } catch (BrokenBatchException error) {
                batches.broken(error.getMessage());
            }
            if (!nextBatch()) {
                return false;
            }
        }
    }

    /** Number of the records that are left, which are read: from batch headers where those say it exactly, else by walking. */
    public long count() throws IOException {
        long count = records.restByHeader();
        while (next()) {
            count += 1 + records.restByHeader();
        }
        return count;
    }

    /** Step to the next batch of which something is wanted. */
    private boolean nextBatch() throws IOException {
        if (aborted == null) {
            aborted = options.readCommitted() && from < until && Files.isDirectory(Path.of(partition.directory()))
                ? AbortedRanges.read(Path.of(partition.directory()), from, until) : new AbortedRanges();
        }
        records.drop();
        while (batches.next()) {
            byte[] data = batches.data;
            int start = batches.start;
            boolean isLeftOut = Batch.isControl(data, start)
                || Batch.isTransactional(data, start)
                && aborted.has(Batch.producerId(data, start), Batch.baseOffset(data, start));
            try {
                if (!isLeftOut && records.begin(data, start, batches.end)) {
                    return true;
                }
            } catch (BrokenBatchException error) {
                batches.broken(error.getMessage());
            }
        }
        return false;
    }

    public long offset() {
        return records.offset;
    }

    /** Microseconds since 1970, the nearest there is for what is out of range; 0, or right, where timestamps are not wanted. */
    public long timestamp() {
        return records.timestamp;
    }

    /** 0 CreateTime, 1 LogAppendTime. */
    public int timestampType() {
        return records.type;
    }

    /** Bytes in which key, value and headers lie; valid until {@code next}. */
    public byte[] buffer() {
        return records.buffer;
    }

    public int keyStart() {
        return records.keyStart;
    }

    /** −1: a null key, or keys are not wanted. */
    public int keyLength() {
        return records.keyLength;
    }

    public int valueStart() {
        return records.valueStart;
    }

    /** −1: a null value, or values are not wanted. */
    public int valueLength() {
        return records.valueLength;
    }

    /** 0 if headers are not wanted. */
    public int headerCount() {
        return records.headerCount;
    }

    public int headerNameStart(int header) {
        return records.headers[4 * header];
    }

    public int headerNameLength(int header) {
        return records.headers[4 * header + 1];
    }

    public int headerValueStart(int header) {
        return records.headers[4 * header + 2];
    }

    /** −1: null. */
    public int headerValueLength(int header) {
        return records.headers[4 * header + 3];
    }

    /** Batches that were left out as damaged so far, with {@code skipCorrupt}. */
    public long skippedBatches() {
        return batches.skipped;
    }

    /** Bytes read from files so far. */
    public long bytesRead() {
        return batches.bytesRead;
    }

    /**
     * Offset of the first record with that timestamp (ms) or a later one, at or above {@code from}, of the batch of the present
     * header; −1: it has none. CorruptLogException, UnsupportedFormatException.
     */
    static long firstAt(FileChannel file, Segment segment, Headers headers, long timestamp, long from) throws IOException {
        if (Batch.magic(headers.data, headers.at) < 2) {
            if (Batch.isWrapper(headers.data, headers.at)) {
                throw new UnsupportedFormatException(segment.file(".log")
                        + ": messages of format 0 or 1 have to be opened, which this reader does "
                    + "not; read the topic with the source in Python, format(\"tidelog\")");
            }
            return Batch.baseOffset(headers.data, headers.at);
        }
        byte[] batch = new byte[Math.toIntExact(headers.size)];
        if (Segment.read(file, headers.position, batch, 0, batch.length) < batch.length) {
            return -1; // truncation has cut it off since its header was read
        }
        Records records = new Records(from, Long.MAX_VALUE, new Columns(false, false, false, true),
                new Filter(timestamp, Long.MAX_VALUE),
            new ReadOptions(false, true, false, false));
        try {
            return records.begin(batch, 0, batch.length) && records.next() ? records.offset : -1;
        } catch (BrokenBatchException error) {
            throw new CorruptLogException(segment.file(".log") + ": " + error.getMessage() + "; `tidelog log verify` says more");
        }
    }

    @Override
    public void close() throws IOException {
        batches.close();
    }
}
