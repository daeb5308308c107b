package tidelog.log;

import java.util.Arrays;

/**
 * The wanted records of one batch of format 2 after another; the batch's bytes are the caller's. Offsets in [from, until).
 */
final class Records {
    // A record has at least: length, attributes, two deltas, two null lengths, header count.
    private static final int LEAST_RECORD = 7;
    // A header's count is believed up to so many records, and so many for a byte of the batch; above that they are walked.
    private static final int MOST_BY_HEADER = 1 << 20;
    private static final long MOST_BY_BYTE = 200;

    private final Columns wanted;
    private final Filter filter;
    private final ReadOptions options;
    private final long from;
    private final long until;
    private final Codecs codecs = new Codecs();

    // The present batch: records that are left to walk in buffer[at:end], or offsets [offset + 1, lastByHeader] that are left of
    // its header.
    byte[] buffer = new byte[0];
    private int at;
    private int end;
    private int left;
    private long lastByHeader;
    private boolean isByHeader;
    private long baseOffset;
    private long baseTimestamp;
    private long appendTime;
    int type;

    // The present record. Lengths of −1: null, or not wanted.
    long offset;
    /** In microseconds. */
    long timestamp;
    int keyStart;
    int keyLength = -1;
    int valueStart;
    int valueLength = -1;
    int headerCount;
    /** Four of each: name's start and length, value's start and length. */
    int[] headers = new int[16];

    Records(long from, long until, Columns wanted, Filter filter, ReadOptions options) {
        this.from = from;
        this.until = until;
        this.wanted = wanted;
        this.filter = filter;
        this.options = options;
    }

    /** Step to the next record of the batch; false: there is none. */
    boolean next() throws BrokenBatchException {
        if (isByHeader) {
            if (offset < lastByHeader) {
                offset++;
                return true;
            }
            return false;
        }
        while (left > 0) {
            if (step()) {
                return true;
            }
        }
        return false;
    }

    /** Number of records that are left and that the batch's header tells of; they count as read. */
    long restByHeader() {
        long rest = isByHeader ? lastByHeader - offset : 0;
        offset += rest;
        return rest;
    }

    /** Forget what is left of the batch. */
    void drop() {
        left = 0;
        isByHeader = false;
    }

    /** Check the batch data[start:stop], and make its records ready; false: none is wanted. */
    boolean begin(byte[] data, int start, int stop) throws BrokenBatchException {
        drop();
        if (options.checkCrc() && !Batch.isIntact(data, start, stop)) {
            throw new BrokenBatchException("the checksum of the batch at offset " + Batch.baseOffset(data, start) + " is wrong");
        }
        int count = Batch.count(data, start);
        int codec = Batch.codec(data, start);
        if (count < 0) {
            throw new BrokenBatchException("record count " + count);
        }
        if (count == 0) {
            return false;
        }
        if (codec > Batch.LAST_CODEC) {
            throw new BrokenBatchException("no compression codec has the id " + codec);
        }
        long largest = Batch.maxTimestamp(data, start);
        boolean isAppendTime = Batch.isLogAppendTime(data, start);
        if (largest < filter.minTimestamp() || isAppendTime && largest > filter.maxTimestamp()) {
            return false;
        }
        baseOffset = Batch.baseOffset(data, start);
        baseTimestamp = Batch.baseTimestamp(data, start);
        appendTime = largest;
        type = isAppendTime ? 1 : 0;
        int payload = start + Batch.OVERHEAD;
        if (isInHeader(data, start, count)) {
            if (codec == 0 && count > (stop - payload) / LEAST_RECORD) {
                throw new BrokenBatchException(count + " records in " + (stop - payload) + " bytes");
            }
            if (count <= Math.min(MOST_BY_HEADER, (stop - payload) * MOST_BY_BYTE)) {
                offset = Math.max(baseOffset, from) - 1;
                lastByHeader = Math.min(baseOffset + count - 1, until - 1);
                timestamp = isAppendTime ? microseconds(largest) : 0;
                isByHeader = offset < lastByHeader;
                return isByHeader;
            }
        }
        if (codec == 0) {
            buffer = data;
            at = payload;
            end = stop;
        } else {
            codecs.decompress(codec, data, payload, stop);
            buffer = codecs.bytes();
            at = 0;
            end = codecs.size();
        }
        if (count > (end - at) / LEAST_RECORD) {
            throw new BrokenBatchException(count + " records in " + (end - at) + " bytes");
        }
        left = count;
        if (options.skipCorrupt()) { // of a batch that is skipped no record may have been given
            int first = at;
            try {
                while (left > 0) {
                    step();
                }
            } finally {
                left = 0;
            }
            at = first;
            left = count;
        }
        return true;
    }

    /**
     * True if the header says all that is wanted of the batch's records: offsets without gaps, and one timestamp or none asked
     * for.
     */
    private boolean isInHeader(byte[] data, int start, int count) {
        if (wanted.keys() || wanted.values() || wanted.headers() || Batch.lastOffsetDelta(data, start) != count - 1
            || baseOffset > Long.MAX_VALUE - count) {
            return false;
        }
        return type == 1
            || !wanted.timestamps() && filter.minTimestamp() == Long.MIN_VALUE && filter.maxTimestamp() == Long.MAX_VALUE;
    }

    /**
     * Walk over the next record of the batch; false: it is not wanted. Every record is walked to the batch's end, for its checks.
     */
    private boolean step() throws BrokenBatchException {
        int length = varint(end);
        if (length <= 0 || length > end - at) {
            throw broken();
        }
        int stop = at + length;
        at++; // attributes, none are defined
        long timeDelta = varlong(stop);
        int offsetDelta = varint(stop);
        int keySize = varint(stop);
        keyStart = at;
        skip(keySize, stop);
        int valueSize = varint(stop);
        valueStart = at;
        skip(valueSize, stop);
        int count = varint(stop);
        if (count < 0 || count > (stop - at) / 2) {
            throw broken();
        }
        offset = baseOffset + offsetDelta;
        long time = type == 1 ? appendTime : baseTimestamp + timeDelta;
        boolean isWanted = offset >= from && offset < until && time >= filter.minTimestamp() && time <= filter.maxTimestamp();
        if (isWanted) {
            timestamp = microseconds(time);
            keyLength = wanted.keys() ? keySize : -1;
            valueLength = wanted.values() ? valueSize : -1;
            headerCount = 0;
            if (wanted.headers()) {
                headers(count, stop);
            } else if (count > 0) {
                at = stop; // whoever does not want them does not check them
            }
        } else {
            at = stop;
        }
        left--;
        if (at != stop || left == 0 && at != end) {
            throw broken();
        }
        return isWanted;
    }

    private void headers(int count, int stop) throws BrokenBatchException {
        for (int i = 0; i / 4 < count; i += 2) { // names and values in turn
            int size = varint(stop);
            if (size < 0 && i % 4 == 0) {
                throw broken();
            }
            if (i == headers.length) {
                headers = Arrays.copyOf(headers, 2 * i); // for headers that are there, not for a count that says so
            }
            headers[i] = at;
            headers[i + 1] = size;
            skip(size, stop);
        }
        headerCount = count;
    }

    private void skip(int size, int stop) throws BrokenBatchException {
        if (size < -1 || size > stop - at) {
            throw broken();
        }
        if (size > 0) {
            at += size;
        }
    }

    /** A zig-zag varint of up to 32 bits at {@code at}, which must end before {@code stop}. */
    private int varint(int stop) throws BrokenBatchException {
        int p = at;
        if (p >= stop) {
            throw broken();
        }
        int raw = buffer[p++];
        if (raw < 0) {
            raw &= 0x7f;
            for (int shift = 7;; shift += 7) {
                if (p >= stop) {
                    throw broken();
                }
                int part = buffer[p++] & 0xff;
                if (shift == 28 && part > 0x0f) {
                    throw broken();
                }
                raw |= (part & 0x7f) << shift;
                if (part < 0x80) {
                    break;
                }
            }
        }
        at = p;
        return raw >>> 1 ^ -(raw & 1);
    }

    /** The same of up to 64 bits. */
    private long varlong(int stop) throws BrokenBatchException {
        long raw = 0;
        for (int shift = 0;; shift += 7) {
            if (at >= stop) {
                throw broken();
            }
            int part = buffer[at++] & 0xff;
            if (shift == 63 && part > 0x01) {
                throw broken();
            }
            raw |= (part & 0x7fL) << shift;
            if (part < 0x80) {
                return raw >>> 1 ^ -(raw & 1);
            }
        }
    }

    private BrokenBatchException broken() {
        return new BrokenBatchException("a record of the batch at offset " + baseOffset + " is broken");
    }

    /** Of what is out of range: the nearest that there is. Such timestamps are a producer's mistake, and no reason to fail. */
    private static long microseconds(long ms) {
        if (ms > Long.MAX_VALUE / 1000) {
            return Long.MAX_VALUE;
        }
        return ms < Long.MIN_VALUE / 1000 ? Long.MIN_VALUE : ms * 1000;
    }
}
