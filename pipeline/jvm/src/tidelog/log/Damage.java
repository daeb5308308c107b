package tidelog.log;

import java.io.IOException;
import java.nio.channels.FileChannel;

/**
 * The stretch of a file that begins where no sound batch was found, as {@code storage/segment/batch_walk.py} walks it.
 *
 * @param size in bytes, up to the next sound batch or the end of the file
 * @param isZeros nothing but zeros up to there
 */
record Damage(long size, boolean isZeros) {
    private static final int CHUNK_BYTES = 1 << 20;
    private static final int LARGEST_BATCH = 64 << 20;
    private static final long SEARCH_BYTES = 256L << 20; // that may be read or summed up while looking for a sound batch
    private static final int[] SMALLEST = {26, 34, Batch.OVERHEAD};

    /** Null at the end of the file. */
    static Damage at(FileChannel file, long position) throws IOException {
        long left = file.size() - position;
        byte[] head = new byte[Batch.UP_TO_MAGIC];
        int got = left <= 0 ? 0 : Segment.read(file, position, head, 0, head.length);
        if (got == 0) {
            return null;
        }
        long claimed = claimedSize(head, 0, got, left);
        if (claimed > 0) {
            return new Damage(claimed, false);
        }
        long zeros = zeros(file, position);
        boolean toTheEnd = zeros == left;
        if (toTheEnd) {
            return new Damage(left, true);
        }
        long next = nextSound(file, position, position + left);
        long size = next < 0 ? left : next - position;
        // A batch may start with zeros (offset 0): its first bytes are its own.
        return new Damage(size, zeros >= Batch.UP_TO_MAGIC && size <= zeros);
    }

    /** Size that the first bytes of a batch claim; −1 if they can't be a batch's in so many bytes. */
    private static long claimedSize(byte[] head, int at, int there, long left) {
        if (there < Batch.UP_TO_MAGIC) {
            return -1;
        }
        long size = Batch.size(head, at);
        int magic = Batch.magic(head, at);
        return magic > 2 || size < SMALLEST[magic] || size > left ? -1 : size;
    }

    /** Number of zero bytes from there on. */
    static long zeros(FileChannel file, long position) throws IOException {
        byte[] chunk = new byte[CHUNK_BYTES];
        long count = 0;
        while (true) {
            int got = Segment.read(file, position + count, chunk, 0, chunk.length);
            for (int i = 0; i < got; i++) {
                if (chunk[i] != 0) {
                    return count + i;
                }
            }
            count += got;
            if (got < chunk.length) {
                return count;
            }
        }
    }

    /** Position of the next batch with a right checksum behind {@code position}; −1 if none is found. */
    private static long nextSound(FileChannel file, long position, long limit) throws IOException {
        byte[] window = new byte[CHUNK_BYTES];
        long budget = SEARCH_BYTES;
        long from = position + 1;
        while (from < limit && budget > 0) {
            int got = Segment.read(file, from, window, 0, (int) Math.min(window.length, limit - from));
            budget -= got;
            for (int at = 0; at + Batch.UP_TO_MAGIC <= got; at++) {
                if (!isCandidate(window, at)) {
                    continue;
                }
                long size = claimedSize(window, at, got - at, limit - from - at);
                if (size < 0 || size > Math.min(LARGEST_BATCH, budget)) {
                    continue;
                }
                budget -= size;
                byte[] batch = new byte[(int) size];
                if (Segment.read(file, from + at, batch, 0, batch.length) == size && Batch.isIntact(batch, 0, batch.length)) {
                    return from + at;
                }
            }
            if (got < Batch.UP_TO_MAGIC) {
                break;
            }
            from += got - Batch.UP_TO_MAGIC + 1;
        }
        return -1;
    }

    // Where a sound batch may start: an offset below 2^48, a length in 1 … 2^31 - 1, any 4 bytes, a magic.
    private static boolean isCandidate(byte[] data, int at) {
        return data[at] == 0 && data[at + 1] == 0 && Batch.int32(data, at + 8) > 0 && Batch.magic(data, at) <= 2;
    }
}
