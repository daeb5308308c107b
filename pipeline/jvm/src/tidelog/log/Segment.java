package tidelog.log;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A {@code .log} file at the time of a listing.
 *
 * @param key inode and device: a segment that cleaning has replaced has the old one's name, and another key
 * @param size in bytes; the active one grows
 */
record Segment(Path directory, long baseOffset, Object key, long size) {
    private static final Pattern FILE = Pattern.compile("(\\d{20})(\\.log|\\.txnindex)(\\.cleaned|\\.swap|\\.deleted)?");
    // A swap takes milliseconds. A daemon that has not ended it by then has crashed in it.
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(10);
    private static final long PAUSE_MS = 20;
    private static final int MOST_AT_ONCE = 1 << 20;

    /** The segment's file with that suffix. */
    Path file(String suffix) {
        return directory.resolve(String.format("%020d%s", baseOffset, suffix));
    }

    /**
     * The partition's segments in order of their offsets. The daemon may roll, delete and swap at any moment, and between the
     * renames of a swap offsets can be in no {@code .log} file at all, and then the new files have no {@code .txnindex}: so a
     * listing counts when a second one shows the same files and none of either kind is in mid-swap. LogException: no such
     * directory, or a swap does not end.
     */
    static List<Segment> list(Path directory) throws IOException {
        long begin = System.nanoTime();
        List<Segment> before = null;
        while (true) {
            List<Segment> found = look(directory);
            if (found != null && before != null && areSame(before, found)) {
                return found;
            }
            before = found;
            if (found == null) {
                if (System.nanoTime() - begin > PATIENCE_NS) {
                    throw new LogException(directory
                            + ": segments are in the middle of a swap, and no daemon ends it; start the daemon "
                        + "on this directory once, which recovers it");
                }
                try {
                    Thread.sleep(PAUSE_MS);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                    throw new IOException("interrupted", error);
                }
            }
        }
    }

    static boolean areSame(List<Segment> a, List<Segment> b) {
        if (a.size() != b.size()) {
            return false;
        }
        for (int i = 0; i < a.size(); i++) {
            if (a.get(i).baseOffset != b.get(i).baseOffset || !a.get(i).key.equals(b.get(i).key)) {
                return false;
            }
        }
        return true;
    }

    /** Null: the directory is changing at this moment. */
    private static List<Segment> look(Path directory) throws IOException {
        List<Segment> found = new ArrayList<>();
        try (var entries = Files.newDirectoryStream(directory, "*.{log,txnindex}*")) {
            for (Path entry : entries) {
                Matcher name = FILE.matcher(entry.getFileName().toString());
                if (!name.matches()) {
                    continue;
                }
                if (".swap".equals(name.group(3))) {
                    return null;
                }
                if (name.group(2).equals(".log") && name.group(3) == null) {
                    var status = Files.readAttributes(entry, BasicFileAttributes.class);
                    found.add(new Segment(directory, Long.parseLong(name.group(1)), status.fileKey(), status.size()));
                }
            }
        } catch (NoSuchFileException error) {
            if (Files.isDirectory(directory)) {
                return null; // an entry went between its listing and its stat
            }
            throw new LogException(directory + ": there is no such directory");
        } catch (DirectoryIteratorException error) {
            throw error.getCause();
        }
        found.sort(Comparator.comparingLong(Segment::baseOffset));
        return found;
    }

    /** Index of the segment that holds the offset if any does; −1 when it lies below the first. */
    static int floor(List<Segment> segments, long offset) {
        int low = 0;
        int high = segments.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (segments.get(middle).baseOffset <= offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low - 1;
    }

    /**
     * Segments in which [from, until) lies, or what is left of it; the first one, whose reader tells it, if that is nothing any
     * more.
     */
    static List<Segment> touched(List<Segment> segments, long from, long until) {
        int low = Math.max(0, floor(segments, from));
        return segments.subList(low, Math.min(Math.max(low, floor(segments, until - 1)) + 1, segments.size()));
    }

    /** Open the file; null if it is no longer the one that was listed. */
    FileChannel open() throws IOException {
        FileChannel file = null;
        try {
            // The name stood for this file before and after the open, so that it was the file in between.
            if (!key.equals(keyNow())) {
                return null;
            }
            file = FileChannel.open(file(".log"), StandardOpenOption.READ);
            if (key.equals(keyNow())) {
                return file;
            }
        } catch (NoSuchFileException error) {
            // falls through: retention has taken it since it was listed
        }
        if (file != null) {
            file.close();
        }
        return null;
    }

    /** Open whatever file has the segment's name now; null: none has, since retention has taken it. */
    FileChannel openNow() throws IOException {
        try {
            return FileChannel.open(file(".log"), StandardOpenOption.READ);
        } catch (NoSuchFileException error) {
            return null;
        }
    }

    private Object keyNow() throws IOException {
        return Files.readAttributes(file(".log"), BasicFileAttributes.class).fileKey();
    }

    /** Read up to {@code size} bytes at {@code position} to {@code buffer[at:]}; fewer only at the end of the file. */
    static int read(FileChannel file, long position, byte[] buffer, int at, int size) throws IOException {
        ByteBuffer target = ByteBuffer.wrap(buffer, at, size);
        int got = 0;
        while (got < size) {
            // The JDK reads by way of memory outside of the heap, as much as it is asked for.
            target.limit(at + (int) Math.min(size, (long) got + MOST_AT_ONCE)).position(at + got);
            int more = file.read(target, position + got);
            if (more < 0) {
                break;
            }
            got += more;
        }
        return got;
    }
}
