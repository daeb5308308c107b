package tidelog.log;

import net.jpountz.lz4.LZ4Exception;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4SafeDecompressor;
import net.jpountz.xxhash.XXHash32;
import net.jpountz.xxhash.XXHashFactory;

/**
 * One LZ4 frame, block by block. lz4-java's own stream does not know blocks that refer to those before them, which liblz4 and so
 * the reader in Python decompress; and it takes any number of frames.
 */
final class Lz4Frame {
    private static final LZ4SafeDecompressor DECOMPRESSOR = LZ4Factory.fastestInstance().safeDecompressor();
    private static final XXHash32 HASH = XXHashFactory.fastestInstance().hash32();
    private static final int MAGIC = 0x184D2204;
    // A run of matches costs one byte per 255.
    private static final long MOST_RATIO = 255;

    private final byte[] data;
    private final int stop;
    private final boolean isLinked;
    private final boolean hasBlockSum;
    private final boolean hasContentSum;
    private final long contentSize;
    private final int largestBlock;
    private int at;
    private int block;
    private boolean isPlain;

    Lz4Frame(byte[] data, int start, int stop) throws BrokenBatchException {
        this.data = data;
        this.stop = stop;
        if (stop - start < 7 || Codecs.little32(data, start) != MAGIC) {
            throw broken("no frame header");
        }
        int flags = data[start + 4] & 0xff;
        int descriptor = data[start + 5] & 0xff;
        boolean hasSize = (flags & 0x08) != 0;
        int check = start + 6 + (hasSize ? 8 : 0) + ((flags & 0x01) != 0 ? 4 : 0);
        if ((flags & 0xc2) != 0x40 || (descriptor & 0x8f) != 0 || descriptor >> 4 < 4 || check >= stop) {
            throw broken("no frame header");
        }
        if ((HASH.hash(data, start + 4, check - start - 4, 0) >> 8 & 0xff) != (data[check] & 0xff)) {
            throw broken("the header's checksum is wrong");
        }
        isLinked = (flags & 0x20) == 0;
        hasBlockSum = (flags & 0x10) != 0;
        hasContentSum = (flags & 0x04) != 0;
        contentSize = hasSize ? Long.reverseBytes(Batch.int64(data, start + 6)) : 0;
        if (contentSize < 0 || contentSize > MOST_RATIO * (stop - start)) {
            throw broken((stop - start) + " bytes cannot hold the " + Long.toUnsignedString(contentSize) + " that they claim");
        }
        largestBlock = 1 << 8 + 2 * (descriptor >> 4);
        at = check + 1;
    }

    /** Step to the next block; false: the frame ends. */
    boolean nextBlock() throws BrokenBatchException {
        if (stop - at < 4) {
            throw broken("the stream is cut short");
        }
        int word = Codecs.little32(data, at);
        at += 4;
        if (word == 0) {
            return false;
        }
        isPlain = word < 0;
        block = word & Integer.MAX_VALUE;
        if (block > largestBlock || block + (hasBlockSum ? 4L : 0) > stop - at) {
            throw broken("a block claims " + block + " bytes");
        }
        return true;
    }

    /** Bytes that the block can give at most. */
    long mostOfBlock() {
        return isPlain ? block : Math.min(largestBlock, MOST_RATIO * block);
    }

    /**
     * Decompress the block to out[size:], which has room for the most that it can give, behind those before it; returns its size.
     */
    int decompress(byte[] out, int size) throws BrokenBatchException {
        if (hasBlockSum && HASH.hash(data, at, block, 0) != Codecs.little32(data, at + block)) {
            throw broken("a block's checksum is wrong");
        }
        int got;
        if (isPlain) {
            System.arraycopy(data, at, out, size, block);
            got = block;
        } else if (isLinked && size > 0) {
            got = linked(out, size, size + (int) mostOfBlock()) - size;
        } else {
            try {
                got = DECOMPRESSOR.decompress(data, at, block, out, size, (int) mostOfBlock());
            } catch (LZ4Exception error) {
                throw broken(error.getMessage());
            }
        }
        at += block + (hasBlockSum ? 4 : 0);
        return got;
    }

    /** Check what stands behind the last block. */
    void end(byte[] out, int size) throws BrokenBatchException {
        if (contentSize != 0 && contentSize != size) {
            throw broken("the frame claims " + contentSize + " bytes and gave " + size);
        }
        if (hasContentSum) {
            if (stop - at < 4) {
                throw broken("the stream is cut short");
            }
            if (HASH.hash(out, 0, size, 0) != Codecs.little32(data, at)) {
                throw broken("the content's checksum is wrong");
            }
            at += 4;
        }
        if (at != stop) {
            throw broken((stop - at) + " bytes behind the end of the frame");
        }
    }

    /** A block whose matches may lie in the 64 KiB before it; returns where it ends in {@code out}, at {@code limit} at most. */
    private int linked(byte[] out, int size, int limit) throws BrokenBatchException {
        int p = at;
        int end = at + block;
        int to = size;
        while (p < end) {
            int token = data[p++] & 0xff;
            int literals = token >> 4;
            for (int more = 255; literals >= 15 && more == 255 && p < end; literals += more) {
                more = data[p++] & 0xff;
            }
            if (literals < 0 || literals > end - p || literals > limit - to) {
                throw broken("a block has too many literals");
            }
            System.arraycopy(data, p, out, to, literals);
            p += literals;
            to += literals;
            if (p == end) {
                return to; // the last sequence is literals alone
            }
            if (end - p < 2) {
                throw broken("a block is cut short");
            }
            int distance = data[p] & 0xff | (data[p + 1] & 0xff) << 8;
            p += 2;
            int length = token & 15;
            for (int more = length == 15 ? 255 : 0; more == 255 && p < end; length += more) {
                more = data[p++] & 0xff;
            }
            length += 4;
            if (distance == 0 || distance > to || length < 0 || length > limit - to) {
                throw broken("a match lies outside of the data");
            }
            for (int i = 0; i < length; i++, to++) { // it may overlap itself
                out[to] = out[to - distance];
            }
        }
        throw broken("a block does not end with literals");
    }

    private static BrokenBatchException broken(String why) {
        return new BrokenBatchException("broken lz4 data: " + why);
    }
}
