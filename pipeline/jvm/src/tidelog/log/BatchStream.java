package tidelog.log;

import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * The whole batches of [from, until) as they lie in segment files, one after another, markers and aborted ones among them.
 *
 * <p>A file that is open stays readable when retention removes it or cleaning replaces it, and what it has is right: so each
 * segment is opened once and read to its end. For the next one the directory is looked at anew, by offset, before the file is
 * closed: behind that its key may be another one's. Missing offsets there were taken by retention or DeleteRecords: compaction
 * leaves gaps between batches, never before the first segment.
 */
final class BatchStream implements Closeable {
    private static final int CHUNK_BYTES = 1 << 20;
    private static final int MOST_BYTES = Integer.MAX_VALUE - 8; // of an array

    /** The present batch is {@code data[start:end]}; valid until the next step. */
    byte[] data = new byte[CHUNK_BYTES];
    int start;
    int end;
    /** Everything below it has been seen. */
    long nextOffset;
    long skipped;
    long bytesRead;

    private final Partition partition;
    private final Path directory;
    private final long until;
    private final ReadOptions options;
    private Segment segment;
    private FileChannel file;
    private boolean isRead; // to its end; it stays open until the next one is
    private long position; // in the file, of data[0]
    private boolean isGiven; // the present batch has been given, and counts as seen with the next step
    private int filled; // data[0:filled] is what the file has there

    BatchStream(Partition partition, long from, long until, ReadOptions options) {
        this.partition = partition;
        this.directory = Path.of(partition.directory());
        this.nextOffset = from;
        this.until = until;
        this.options = options;
    }

    /** Step to the next batch of which something may lie in the range. */
    boolean next() throws IOException {
        if (isGiven) {
            nextOffset = Math.max(nextOffset, Batch.lastOffset(data, start) + 1);
            isGiven = false;
        }
        while (nextOffset < until) {
            if ((file == null || isRead) && !openNext()) {
                return false;
            }
            start = end;
            int left = filled - start;
            if (left < Batch.UP_TO_MAGIC) {
                if (!fill(Batch.UP_TO_MAGIC)) {
                    endOfFile();
                }
                continue;
            }
            long size = Batch.size(data, start);
            if (size < Batch.LOG_OVERHEAD + Batch.LEAST_LENGTH) {
                damaged("a batch of " + (size - Batch.LOG_OVERHEAD) + " bytes behind offset " + (nextOffset - 1));
            } else if (size > left) {
                if (size > MOST_BYTES || !fill((int) size)) {
                    endOfFile();
                }
            } else {
                end = start + (int) size;
                if (isWanted()) {
                    isGiven = true;
                    return true;
                }
            }
        }
        return false;
    }

    /** Whether the reader is to see the whole batch at {@code start}. */
    private boolean isWanted() throws IOException {
        int magic = Batch.magic(data, start);
        if (magic < 2 && (!options.checkCrc() || Batch.isIntact(data, start, end))) {
            if (Batch.baseOffset(data, start) < nextOffset) {
                return false;
            }
            throw new UnsupportedFormatException(segment.file(".log") + ": offset " + Batch.baseOffset(data, start)
                    + " is of message format "
                + magic + ", which this reader does not have; read the topic with the source in Python, format(\"tidelog\")");
        }
        if (magic != 2 || end - start < Batch.OVERHEAD) {
            broken("a batch of format " + magic + " and " + (end - start) + " bytes");
            return false;
        }
        if (Batch.baseOffset(data, start) >= until) {
            nextOffset = until;
            return false;
        }
        return Batch.lastOffset(data, start) >= nextOffset;
    }

    /** The present batch, of which the size is known, is damaged: skipped or CorruptLogException. */
    void broken(String cause) throws IOException {
        isGiven = false;
        if (options.skipCorrupt()) {
            skipped++; // its fields may be what is damaged: nothing is taken from them
        } else {
            damaged(cause);
        }
    }

    /** Read on so that data[0:] begins with the bytes at {@code start}; false if the file has not so many from there. */
    private boolean fill(int size) throws IOException {
        int left = filled - start;
        long from = position + start;
        if (size > data.length) {
            if (from + size > file.size()) {
                return false;
            }
            byte[] larger = new byte[size];
            System.arraycopy(data, start, larger, 0, left);
            data = larger;
        } else {
            System.arraycopy(data, start, data, 0, left);
        }
        position = from;
        start = end = 0;
        int got = Segment.read(file, from + left, data, left, data.length - left);
        bytesRead += got;
        filled = left + got;
        return filled >= size;
    }

    private void endOfFile() throws IOException {
        if (filled - start < Long.BYTES || Batch.baseOffset(data, start) >= until) {
            isRead = true; // of the active segment, as far as it is written
        } else {
            damaged("a batch is cut off by the end of the file");
        }
    }

    /**
     * Go on behind bytes at {@code start} that are no sound batch; CorruptLogException, unless they are to be skipped or are the
     * room that an active segment has reserved.
     */
    private void damaged(String cause) throws IOException {
        long at = position + start;
        Damage found = Damage.at(file, at);
        long next = file.size();
        if (found != null) {
            List<Segment> now = found.isZeros() ? Segment.list(directory) : List.of();
            if (now.isEmpty() || !now.get(now.size() - 1).key().equals(segment.key())) {
                if (!options.skipCorrupt()) {
                    throw new CorruptLogException(segment.file(".log") + ": damaged at byte " + at + ", behind offset "
                            + (nextOffset - 1) + ": "
                        + cause + "; `tidelog log verify` says more; set corruptBatches to skip to leave out what is damaged");
                }
                skipped++;
                next = at + found.size();
            }
        }
        position = next;
        start = end = filled = 0;
    }

    /** Open the segment that holds `nextOffset` or what follows it now. False: that lies behind the range. */
    private boolean openNext() throws IOException {
        while (true) {
            Segment found = nextSegment();
            if (found == null) {
                return false;
            }
            FileChannel opened = found.open();
            if (opened == null) {
                continue;
            }
            close();
            segment = found;
            file = opened;
            // Behind the open: as long as the directory is that topic's, so was the file.
            if (isMadeAnew()) {
                return false;
            }
            isRead = false;
            nextOffset = Math.max(nextOffset, segment.baseOffset()); // nothing lies between
            position = SparseIndex.startPosition(file, segment, nextOffset);
            start = end = filled = 0;
            return true;
        }
    }

    private Segment nextSegment() throws IOException {
        List<Segment> segments = isDeleted() ? List.of() : Segment.list(directory);
        int index = Segment.floor(segments, nextOffset);
        if (index < 0 && !segments.isEmpty() && options.failOnDataLoss()) {
            long gone = Math.min(segments.get(0).baseOffset(), until);
            throw new DataLostException(partition + ": offsets " + nextOffset + " to " + (gone - 1)
                    + " are gone: retention or DeleteRecords has "
                + "taken them while they were to be read; set failOnDataLoss to false to go on without them");
        }
        for (Segment found : segments.subList(Math.max(index, 0), segments.size())) {
            if (found.baseOffset() >= until) {
                return null;
            }
            if (file == null || !found.key().equals(segment.key())) {
                return found;
            }
        }
        // A log ends with its last batch, or with the name of a segment that has none yet: here there is no gap of compaction's.
        if (options.failOnDataLoss() && skipped == 0) {
            throw new DataLostException(partition + ": offsets " + nextOffset + " to " + (until - 1)
                    + " are gone: the files in " + directory + " end before them, so the log was truncated while they were to be "
                    + "read, or these are not all that its broker has; set failOnDataLoss to false to go on without them");
        }
        return null;
    }

    /**
     * True if the partition is gone, and nobody minds. A log.dir that is not there either is one that this machine does not see.
     */
    private boolean isDeleted() throws IOException {
        if (Files.isDirectory(directory) || !Files.isDirectory(directory.getParent())) {
            return false;
        }
        if (options.failOnDataLoss()) {
            throw new DataLostException(partition + ": the topic was deleted before offsets " + nextOffset + " to " + (until - 1)
                    + " were read; set "
                + "failOnDataLoss to false to go on without them");
        }
        return true;
    }

    private boolean isMadeAnew() throws IOException {
        String id = TopicId.orEmpty(directory);
        if (id.isEmpty() || partition.topicId().isEmpty() || id.equals(partition.topicId())) {
            return false;
        }
        if (options.failOnDataLoss()) {
            throw new DataLostException(partition + ": the topic was deleted and made anew (it had the id " + partition.topicId()
                    + ", and has " + id
                + ") before offsets " + nextOffset + " to " + (until - 1)
                + " were read; set failOnDataLoss to false to go on without them");
        }
        nextOffset = until;
        return true;
    }

    @Override
    public void close() throws IOException {
        if (file != null) {
            file.close();
            file = null;
        }
    }
}
