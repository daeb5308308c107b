package tidelog.log;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32C;

/**
 * The oldest transaction that is open in a partition's files: committed data ends before it. The newest producer snapshot at or
 * below the wanted end says which were open there, the headers of the batches behind it what became of them. A stream asks with
 * each trigger, so a scan remembers how far it has come, and reads each header once. It goes on in the file that has the
 * last one where it was; another one may have the name, and the key, of a file that is gone.
 */
final class OpenTransactions {
    // int16 version, uint32 CRC-32C of what follows it, int32 count; then entries, whose last int64 is a transaction's first
    // offset
    private static final int SNAPSHOT_HEADER = 10;
    private static final int SNAPSHOT_ENTRY = 46;

    private long baseOffset = -1; // of the segment that was read last
    private long position = -1; // of the last batch that was read there; -1: none was
    private long batchOffset;
    private long batchSize;
    private long nextOffset; // behind it
    private long end = -1;
    private Map<Long, Long> open = new HashMap<>();

    /** First offset of the oldest transaction that is open at {@code wanted}; {@code wanted} when none is. */
    long firstOpen(List<Segment> segments, long wanted) throws IOException {
        int at = 0;
        while (at < segments.size() && segments.get(at).baseOffset() != baseOffset) {
            at++;
        }
        if (at == segments.size() || wanted < end || !goOn(segments.subList(at, segments.size()), wanted)) {
            baseOffset = -1;
            open = new HashMap<>();
            goOn(segments.subList(fromSnapshot(segments, wanted), segments.size()), wanted);
        }
        end = wanted;
        return open.isEmpty() ? wanted : Math.min(wanted, Collections.min(open.values()));
    }

    /** Index of the segment at which to begin, with what was open there in {@code open}. */
    private int fromSnapshot(List<Segment> segments, long wanted) throws IOException {
        for (int at = Math.min(Segment.floor(segments, wanted), segments.size() - 1); at >= 0; at--) {
            Map<Long, Long> found = snapshot(segments.get(at));
            if (found != null) {
                open = found;
                return at;
            }
        }
        return 0;
    }

    /** Producer and first offset of each transaction that was open where the segment begins; null without a sound snapshot. */
    private static Map<Long, Long> snapshot(Segment segment) throws IOException {
        ByteBuffer data;
        try {
            data = ByteBuffer.wrap(Files.readAllBytes(segment.file(".snapshot")));
        } catch (NoSuchFileException error) {
            return null;
        }
        if (data.capacity() < SNAPSHOT_HEADER || data.getShort(0) != 1) {
            return null;
        }
        CRC32C sum = new CRC32C();
        sum.update(data.array(), 6, data.capacity() - 6);
        int count = data.getInt(6);
        if ((int) sum.getValue() != data.getInt(2) || SNAPSHOT_HEADER + (long) count * SNAPSHOT_ENTRY != data.capacity()) {
            return null;
        }
        Map<Long, Long> found = new HashMap<>();
        for (int at = SNAPSHOT_HEADER; at < data.capacity(); at += SNAPSHOT_ENTRY) {
            if (data.getLong(at + 38) >= 0) {
                found.put(data.getLong(at), data.getLong(at + 38));
            }
        }
        return found;
    }

    /** Read headers up to {@code wanted}. False: what was read before is not what the file has now. */
    private boolean goOn(List<Segment> segments, long wanted) throws IOException {
        for (Segment segment : segments) {
            if (segment.baseOffset() >= wanted || segment.baseOffset() == baseOffset && nextOffset >= wanted) {
                return true;
            }
            try (FileChannel file = segment.openNow()) {
                if (file == null) {
                    continue;
                }
                if (segment.baseOffset() != baseOffset) {
                    baseOffset = segment.baseOffset();
                    position = -1;
                    nextOffset = baseOffset;
                }
                Headers headers = new Headers(file, segment.file(".log").toString(), Math.max(position, 0));
                if (position >= 0 && !isWhereItWas(headers)) {
                    return false;
                }
                while (headers.next()) {
                    byte[] data = headers.data;
                    int at = headers.at;
                    if (Batch.baseOffset(data, at) >= wanted) {
                        return true;
                    }
                    position = headers.position;
                    batchOffset = Batch.baseOffset(data, at);
                    batchSize = headers.size;
                    nextOffset = Batch.lastOffset(data, at) + 1;
                    if (Batch.magic(data, at) < 2 || !Batch.isTransactional(data, at)) {
                        continue;
                    }
                    if (Batch.isControl(data, at)) {
                        open.remove(Batch.producerId(data, at));
                    } else {
                        open.putIfAbsent(Batch.producerId(data, at), Batch.baseOffset(data, at));
                    }
                }
            }
        }
        return true;
    }

    /** Step to the last batch that was read. False: it is not there, so that it was another file, whatever its key. */
    private boolean isWhereItWas(Headers headers) throws IOException {
        try {
            return headers.next() && Batch.baseOffset(headers.data, headers.at) == batchOffset && headers.size == batchSize;
        } catch (CorruptLogException error) {
            return false;
        }
    }
}
