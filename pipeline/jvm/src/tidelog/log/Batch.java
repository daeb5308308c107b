package tidelog.log;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;

/** Where fields of a batch of format 2 lie in its bytes; the ruler is in {@code protocol/records/record_batch.py}. */
final class Batch {
    /** Base offset and length, which every format begins with. */
    static final int LOG_OVERHEAD = 12;
    static final int UP_TO_MAGIC = 17;
    /** The least that a length can say. */
    static final int LEAST_LENGTH = 14;
    /** The header: records begin behind it. */
    static final int OVERHEAD = 61;
    static final int LAST_CODEC = 4;

    private static final int LENGTH_AT = 8;
    private static final int MAGIC_AT = 16;
    private static final int CRC_AT = 17;
    private static final int ATTRIBUTES_AT = 21;
    private static final int LAST_OFFSET_DELTA_AT = 23;
    private static final int BASE_TIMESTAMP_AT = 27;
    private static final int MAX_TIMESTAMP_AT = 35;
    private static final int PRODUCER_ID_AT = 43;
    private static final int COUNT_AT = 57;
    private static final int LEGACY_CRC_AT = 12;
    private static final int LEGACY_ATTRIBUTES_AT = 17;
    private static final int LEGACY_TIMESTAMP_AT = 18;

    private static final VarHandle INT16 = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.BIG_ENDIAN);
    private static final VarHandle INT32 = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
    private static final VarHandle INT64 = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private Batch() {}

    static int int16(byte[] data, int at) {
        return (short) INT16.get(data, at);
    }

    static int int32(byte[] data, int at) {
        return (int) INT32.get(data, at);
    }

    static long int64(byte[] data, int at) {
        return (long) INT64.get(data, at);
    }

    static long baseOffset(byte[] data, int at) {
        return int64(data, at);
    }

    /** Bytes in all, as the length field claims. */
    static long size(byte[] data, int at) {
        return LOG_OVERHEAD + (long) int32(data, at + LENGTH_AT);
    }

    static int magic(byte[] data, int at) {
        return data[at + MAGIC_AT] & 0xff;
    }

    static int attributes(byte[] data, int at) {
        return int16(data, at + ATTRIBUTES_AT);
    }

    static int codec(byte[] data, int at) {
        return attributes(data, at) & 0x07;
    }

    static boolean isLogAppendTime(byte[] data, int at) {
        return (attributes(data, at) & 0x08) != 0;
    }

    static boolean isTransactional(byte[] data, int at) {
        return (attributes(data, at) & 0x10) != 0;
    }

    static boolean isControl(byte[] data, int at) {
        return (attributes(data, at) & 0x20) != 0;
    }

    static int lastOffsetDelta(byte[] data, int at) {
        return int32(data, at + LAST_OFFSET_DELTA_AT);
    }

    /** Last offset; of a message of format 0 or 1 the one offset that it says. */
    static long lastOffset(byte[] data, int at) {
        return magic(data, at) < 2 ? baseOffset(data, at) : baseOffset(data, at) + lastOffsetDelta(data, at);
    }

    static long baseTimestamp(byte[] data, int at) {
        return int64(data, at + BASE_TIMESTAMP_AT);
    }

    /** Largest timestamp in ms; of a message of format 0 none, −1. */
    static long maxTimestamp(byte[] data, int at) {
        int magic = magic(data, at);
        return magic == 0 ? -1 : int64(data, at + (magic == 1 ? LEGACY_TIMESTAMP_AT : MAX_TIMESTAMP_AT));
    }

    static long producerId(byte[] data, int at) {
        return int64(data, at + PRODUCER_ID_AT);
    }

    static int count(byte[] data, int at) {
        return int32(data, at + COUNT_AT);
    }

    /** True for a message of format 0 or 1 that holds others. */
    static boolean isWrapper(byte[] data, int at) {
        return magic(data, at) < 2 && (data[at + LEGACY_ATTRIBUTES_AT] & 0x07) != 0;
    }

    /** True if the checksum is that of the bytes; {@code data[at:end]} is one whole batch or message of any format. */
    static boolean isIntact(byte[] data, int at, int end) {
        if (magic(data, at) < 2) {
            CRC32 sum = new CRC32();
            sum.update(data, at + MAGIC_AT, end - at - MAGIC_AT);
            return (int) sum.getValue() == int32(data, at + LEGACY_CRC_AT);
        }
        CRC32C sum = new CRC32C();
        sum.update(data, at + ATTRIBUTES_AT, end - at - ATTRIBUTES_AT);
        return (int) sum.getValue() == int32(data, at + CRC_AT);
    }

    /** True if a batch or message begins at {@code data[at:end]} whose last offset is that one, as an index entry claims. */
    static boolean endsAt(byte[] data, int at, int end, long lastOffset) {
        if (end - at < UP_TO_MAGIC + 1 || magic(data, at) > 2 || end - at < (magic(data, at) == 2 ? OVERHEAD : 26)) {
            return false;
        }
        return lastOffset(data, at) == lastOffset;
    }
}
