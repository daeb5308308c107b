package tidelog.log;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdException;
import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import org.xerial.snappy.Snappy;

/**
 * The four codecs, with bounded output, and with the verdicts of {@code protocol/records/compression.py}: nothing may lie behind
 * the end of a stream, and no memory is taken because of what the input merely claims. One thread; the result is overwritten by
 * the next.
 */
final class Codecs {
    /** Limit of a decompressed batch, as in Python. */
    private static final int MOST_BYTES = 128 << 20;
    // A stream may have so many parts (gzip members, xerial headers and blocks, zstd frames), and one more for so many bytes that
    // it holds.
    private static final int FREE_PARTS = 1024;
    private static final int PART_BYTES = 512;

    private static final byte[] XERIAL_MAGIC = {(byte) 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
    private static final int XERIAL_HEADER = 16;
    // The densest snappy element is a copy: 3 bytes for 64.
    private static final long SNAPPY_MOST_RATIO = 22;
    // The densest zstd block is 4 bytes (header and one repeated byte) for 128 KiB.
    private static final long ZSTD_MOST_RATIO = 128 * 1024 / 4;

    private byte[] out = new byte[1 << 16];
    private int size;
    private int parts;

    /** The result is bytes()[0:size()]. */
    byte[] bytes() {
        return out;
    }

    int size() {
        return size;
    }

    /** Decompress the one stream data[start:end]. */
    void decompress(int codec, byte[] data, int start, int end) throws BrokenBatchException {
        size = 0;
        parts = 0;
        switch (codec) {
            case 1 -> gzip(data, start, end);
            case 2 -> snappy(data, start, end);
            case 3 -> lz4(data, start, end);
            case 4 -> zstd(data, start, end);
            default -> throw new BrokenBatchException("no compression codec has the id " + codec);
        }
    }

    private void beginPart(String codec) throws BrokenBatchException {
        if (++parts > FREE_PARTS + size / PART_BYTES) {
            throw new BrokenBatchException("the first " + (parts - 1) + " parts of " + codec + " data hold " + size
                    + " bytes: a batch may have "
                + FREE_PARTS + " parts, and one for each " + PART_BYTES + " bytes");
        }
    }

    /** Make room for {@code more} bytes behind those that are there. */
    private void reserve(long more, String codec) throws BrokenBatchException {
        if (size + more > MOST_BYTES) {
            throw new BrokenBatchException(codec + " data expands to more than " + MOST_BYTES + " bytes");
        }
        if (size + more > out.length) {
            out = Arrays.copyOf(out, (int) Math.max(size + more, Math.min(MOST_BYTES, 2L * out.length)));
        }
    }

    private static BrokenBatchException broken(String codec, Object why) {
        return new BrokenBatchException("broken " + codec + " data: " + why);
    }

    private static final String CUT = "the stream is cut short";

    // ---- gzip: one or more members -------------------------------------------------------------------------------------------

    private void gzip(byte[] data, int start, int end) throws BrokenBatchException {
        int at = start;
        Inflater inflater = new Inflater(true);
        try {
            do {
                beginPart("gzip");
                int body = gzipHeader(data, at, end);
                int from = size;
                inflater.reset();
                inflater.setInput(data, body, end - body);
                while (!inflater.finished()) {
                    if (size == out.length) {
                        reserve(1, "gzip");
                    }
                    int got = inflater.inflate(out, size, out.length - size);
                    size += got;
                    if (got == 0 && !inflater.finished()) {
                        throw broken("gzip", inflater.needsDictionary() ? "it needs a dictionary" : CUT);
                    }
                }
                at = end - inflater.getRemaining();
                if (end - at < 8) {
                    throw broken("gzip", CUT);
                }
                CRC32 sum = new CRC32();
                sum.update(out, from, size - from);
                if ((int) sum.getValue() != little32(data, at) || size - from != little32(data, at + 4)) {
                    throw broken("gzip", "incorrect check of a member's data or length");
                }
                at += 8;
            } while (at < end);
        } catch (DataFormatException error) {
            throw broken("gzip", error.getMessage());
        } finally {
            inflater.end();
        }
    }

    /** Position behind a member's header (RFC 1952). */
    private static int gzipHeader(byte[] data, int start, int end) throws BrokenBatchException {
        if (end - start < 10) {
            throw broken("gzip", end - start < 2 || isGzip(data, start) ? CUT : "incorrect header check");
        }
        int flags = data[start + 3] & 0xff;
        if (!isGzip(data, start) || data[start + 2] != 8 || (flags & 0xe0) != 0) {
            throw broken("gzip", "incorrect header");
        }
        int at = start + 10;
        if ((flags & 4) != 0) { // extra field
            at = end - at < 2 ? end + 1 : at + 2 + (data[at] & 0xff) + ((data[at + 1] & 0xff) << 8);
        }
        for (int strings = (flags >> 3 & 1) + (flags >> 4 & 1); strings > 0; strings--) { // name, comment
            while (at < end && data[at] != 0) {
                at++;
            }
            at++;
        }
        if ((flags & 2) != 0) {
            if (end - at < 2) {
                throw broken("gzip", CUT);
            }
            CRC32 sum = new CRC32();
            sum.update(data, start, at - start);
            if ((sum.getValue() & 0xffff) != ((data[at] & 0xff) | (data[at + 1] & 0xff) << 8)) {
                throw broken("gzip", "header crc mismatch");
            }
            at += 2;
        }
        if (at > end) {
            throw broken("gzip", CUT);
        }
        return at;
    }

    private static boolean isGzip(byte[] data, int at) {
        return data[at] == 0x1f && data[at + 1] == (byte) 0x8b;
    }

    // ---- snappy: one raw block, or xerial framing -----------------------------------------------------------------------------

    private void snappy(byte[] data, int start, int end) throws BrokenBatchException {
        if (!isXerial(data, start, end)) {
            snappyBlock(data, start, end);
            return;
        }
        int at = start;
        while (at < end) {
            beginPart("snappy");
            if (isXerial(data, at, end)) { // at the start, and wherever streams were joined
                if (end - at < XERIAL_HEADER) {
                    throw broken("snappy", CUT);
                }
                at += XERIAL_HEADER;
                continue;
            }
            if (end - at < 4) {
                throw broken("snappy", CUT);
            }
            int block = Batch.int32(data, at);
            at += 4;
            if (block < 0 || block > end - at) {
                throw broken("snappy", "a block claims " + block + " bytes where " + (end - at) + " are left");
            }
            snappyBlock(data, at, at + block);
            at += block;
        }
    }

    private static boolean isXerial(byte[] data, int at, int end) {
        return end - at >= XERIAL_MAGIC.length
            && Arrays.equals(data, at, at + XERIAL_MAGIC.length, XERIAL_MAGIC, 0, XERIAL_MAGIC.length);
    }

    private void snappyBlock(byte[] data, int start, int end) throws BrokenBatchException {
        // A block opens with its size as an unsigned varint: believe it only as far as the format can expand.
        long claimed = 0;
        int at = start;
        do {
            if (at == Math.min(end, start + 5)) {
                throw broken("snappy", "a block does not state its size");
            }
            claimed |= (data[at] & 0x7fL) << 7 * (at - start);
        } while (data[at++] < 0);
        if (claimed > SNAPPY_MOST_RATIO * (end - start)) {
            throw broken("snappy", (end - start) + " bytes cannot hold the " + claimed + " that they claim");
        }
        reserve(claimed, "snappy");
        try {
            int got = Snappy.uncompress(data, start, end - start, out, size);
            if (got != claimed) {
                throw broken("snappy", "a block of " + claimed + " bytes gave " + got);
            }
            size += got;
        } catch (IOException error) {
            throw broken("snappy", error.getMessage());
        }
    }

    // ---- lz4: one frame -------------------------------------------------------------------------------------------------------

    private void lz4(byte[] data, int start, int end) throws BrokenBatchException {
        Lz4Frame frame = new Lz4Frame(data, start, end);
        while (frame.nextBlock()) {
            reserve(frame.mostOfBlock(), "lz4");
            size += frame.decompress(out, size);
        }
        frame.end(out, size);
    }

    // ---- zstd: one or more frames ---------------------------------------------------------------------------------------------

    private void zstd(byte[] data, int start, int end) throws BrokenBatchException {
        int at = start;
        try {
            do {
                beginPart("zstd");
                long frame = Zstd.findFrameCompressedSize(data, at, end - at);
                if (Zstd.isError(frame) || frame <= 0 || frame > end - at) {
                    throw broken("zstd", Zstd.isError(frame) ? Zstd.getErrorName(frame) : CUT);
                }
                zstdFrame(data, at, (int) frame);
                at += (int) frame;
            } while (at < end);
        } catch (ZstdException error) {
            throw broken("zstd", error.getMessage());
        }
    }

    private void zstdFrame(byte[] data, int start, int length) throws BrokenBatchException {
        long claimed = Zstd.getFrameContentSize(data, start, length);
        if (claimed > MOST_BYTES) {
            reserve(claimed, "zstd");
        }
        if (claimed > 0 && claimed <= ZSTD_MOST_RATIO * length) {
            reserve(claimed, "zstd");
            long got = Zstd.decompressByteArray(out, size, (int) claimed, data, start, length);
            if (Zstd.isError(got) || got != claimed) {
                throw broken("zstd", Zstd.isError(got) ? Zstd.getErrorName(got) : "a frame of " + claimed + " bytes gave " + got);
            }
            size += (int) got;
            return;
        }
        try (var stream = new ZstdInputStreamNoFinalizer(new ByteArrayInputStream(data, start, length))) {
            while (true) {
                reserve(1, "zstd");
                int got = stream.read(out, size, out.length - size);
                if (got < 0) {
                    return;
                }
                size += got;
            }
        } catch (IOException error) {
            throw broken("zstd", error.getMessage());
        }
    }

    static int little32(byte[] data, int at) {
        return Integer.reverseBytes(Batch.int32(data, at));
    }
}
