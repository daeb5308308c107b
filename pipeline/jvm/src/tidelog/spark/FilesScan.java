package tidelog.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileStore;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import tidelog.log.Split;

/**
 * What is read in the end: columns, limits, or counts instead of rows. The driver's.
 *
 * @param schema of what is read; with {@code counts} what is grouped by, then counts
 */
record FilesScan(String name, Options options, StructType schema, Narrowed narrowed, boolean counts) implements Scan, Batch {
    /** File systems that more than one machine sees: no machine is nearer to them. */
    private static final Set<String> SHARED =
            Set.of("nfs", "nfs4", "cifs", "smb3", "smb2", "9p", "ceph", "lustre", "glusterfs", "beegfs", "gpfs", "afs");

    /** What a task reads. */
    record Task(Split split, String[] hosts) implements InputPartition {
        private static final long serialVersionUID = 1;

        @Override
        public String[] preferredLocations() {
            return hosts;
        }
    }

    /** Something that may find files as they should not be. */
    interface Reading<T> {
        T get() throws IOException;
    }

    /** The same for Spark, which knows no IOException here: with the message alone. */
    static <T> T unchecked(Reading<T> reading) {
        try {
            return reading.get();
        } catch (IOException error) {
            throw new UncheckedIOException(told(error), error);
        }
    }

    /** The JDK names the file alone where it takes the class for reason enough. */
    private static String told(IOException error) {
        return error instanceof AccessDeniedException ? error.getMessage() + ": this process may not read it"
                : error instanceof FileSystemException file && file.getReason() == null ? file.getMessage() + ": "
                + error.getClass().getSimpleName()
                : error.getMessage();
    }

    @Override
    public StructType readSchema() {
        return schema;
    }

    @Override
    public String description() {
        return name + (counts ? ", counted" : "") + (narrowed.equals(Narrowed.NOTHING) ? "" : ", " + narrowed);
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
        return ColumnarSupportMode.SUPPORTED; // otherwise Spark would plan partitions to find out
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
        return Metrics.supported();
    }

    @Override
    public Batch toBatch() {
        options.checkBatch();
        return this;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
        options.checkStream();
        return unchecked(() -> {
            // By which Spark writes the checkpoint: with the session's settings of file systems.
            var session = (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
            FirstOffset first = new FirstOffset(checkpointLocation, session.sessionState().newHadoopConf());
            return new FilesStream(this, planner(), first, System::nanoTime);
        });
    }

    @Override
    public InputPartition[] planInputPartitions() {
        List<Split> splits = unchecked(() -> planner().batch(narrowed));
        // Spark makes null of the sum of no counts.
        return tasks(splits.isEmpty() && counts && SplitReaders.isOfAll(schema) ? List.of(SplitReaders.NOTHING) : splits);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new SplitReaders(schema, narrowed.times(), options, counts);
    }

    InputPartition[] tasks(List<Split> splits) {
        String[] hosts = hosts();
        return splits.stream().map(split -> new Task(split, hosts)).toArray(InputPartition[]::new);
    }

    private Planner planner() throws IOException {
        return new Planner(options, SparkSession.active().sparkContext().defaultParallelism());
    }

    /**
     * The driver's machine, which sees the files, if they are on its own disks. Spark passes over a host that has no executor.
     */
    private String[] hosts() {
        try {
            for (String path : options.paths()) {
                FileStore store = Files.getFileStore(Path.of(path));
                if (SHARED.contains(store.type()) || store.type().startsWith("fuse")) {
                    return new String[0];
                }
            }
            Set<String> hosts = new LinkedHashSet<>();
            hosts.add(SparkSession.active().sparkContext().getConf().get("spark.driver.host", ""));
            hosts.add(InetAddress.getLocalHost().getHostName());
            hosts.remove("");
            return hosts.toArray(String[]::new);
        } catch (IOException error) {
            return new String[0]; // a hint
        }
    }
}
