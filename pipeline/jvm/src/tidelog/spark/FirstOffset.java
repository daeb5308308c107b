package tidelog.spark;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Where a query began, kept in its checkpoint: Spark writes ends of batches alone there, and a first batch that failed is to be
 * read again from where it began, not from where the query would begin now. The file is that of Spark's Kafka source. The
 * source in Python is told no checkpoint, and has that in the end of its first batch. The driver's.
 */
final class FirstOffset {
    /** A zero byte, which the Kafka source begins with since Spark 2.1, then its version. */
    private static final String HEAD = "\0v1\n";

    private final Path path;
    private final FileSystem files;

    /** {@code directory}: the source's own in the checkpoint, of any of Hadoop's file systems; it may not be there yet. */
    FirstOffset(String directory, Configuration configuration) throws IOException {
        path = new Path(directory, "0");
        files = path.getFileSystem(configuration);
    }

    /** Null: none was written. OptionException: by another source. */
    Position read() throws IOException {
        if (!files.exists(path)) {
            return null;
        }
        String text;
        try (var in = files.open(path)) {
            text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
        return new Position(text.startsWith(HEAD) ? text.substring(HEAD.length()) : text);
    }

    /** In one step: a torn file would stop the query for good. */
    void write(Position position) throws IOException {
        Path made = path.suffix(".tmp");
        files.mkdirs(path.getParent());
        try (OutputStream out = files.create(made, true)) {
            out.write((HEAD + position.json()).getBytes(StandardCharsets.UTF_8));
        }
        if (!files.rename(made, path)) {
            throw new IOException(path + ": can't be written; it is to say where the query begins");
        }
    }
}
