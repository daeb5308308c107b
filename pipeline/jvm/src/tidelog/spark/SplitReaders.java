package tidelog.spark;

import java.io.IOException;
import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import tidelog.log.Columns;
import tidelog.log.Filter;
import tidelog.log.Partition;
import tidelog.log.ReadOptions;
import tidelog.log.RecordReader;
import tidelog.log.Split;

/** Makes the readers of tasks. Shipped with each of them. {@code schema} as in FilesScan. */
record SplitReaders(StructType schema, Filter times, Options options, boolean counts) implements PartitionReaderFactory {
    private static final long serialVersionUID = 1;
    /** A split of no partition, in which are no records. */
    static final Split NOTHING = new Split(new Partition("", 0, "", ""), 0, 0);

    private static final int MOST_ROWS = 4096;
    /** Bytes of keys, values and headers after which rows are handed on all the same. */
    private static final long MOST_BYTES = 8 << 20;

    private Object writeReplace() {
        return Shipped.of(new Content(schema, times, options, counts));
    }

    /** What is shipped: it becomes a SplitReaders where it is read. */
    private record Content(StructType schema, Filter times, Options options, boolean counts) implements Serializable {
        private static final long serialVersionUID = 1;

        private Object readResolve() {
            return new SplitReaders(schema, times, options, counts);
        }
    }

    @Override
    public boolean supportColumnarReads(InputPartition partition) {
        return true;
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
        throw new UnsupportedOperationException("columns only");
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
        Split split = ((FilesScan.Task) partition).split();
        ReadOptions how = new ReadOptions(options.readCommitted(), options.failOnDataLoss(), options.skipCorrupt(),
                options.checkCrcs());
        Columns wanted = counts ? Columns.NONE : new Columns(has("key"), has("value"), has("headers"), has("timestamp"));
        RecordReader reader = new RecordReader(split.partition(), split.from(), split.until(), wanted, times, how);
        return counts ? new Counted(reader, split) : new Rows(reader, split);
    }

    /** True for a schema of counts that are not by group. */
    static boolean isOfAll(StructType schema) {
        return schema.fieldNames()[0].startsWith(FilesScanBuilder.COUNT);
    }

    private boolean has(String name) {
        return schema.getFieldIndex(name).isDefined();
    }

    /** The vector of a column; of counts there are several. */
    private static Vectors.Vector vector(StructField field, Split split) {
        return switch (field.name()) {
            case "key", "value" -> new Vectors.Binaries(MOST_ROWS);
            case "topic" -> new Vectors.Text(split.partition().topic());
            case "partition" -> new Vectors.Number(split.partition().number());
            case "offset" -> new Vectors.Longs(field.dataType(), MOST_ROWS);
            case "timestamp" -> new Vectors.Longs(field.dataType(), MOST_ROWS);
            case "timestampType" -> new Vectors.Ints(MOST_ROWS);
            case "headers" -> new Vectors.Headers(field.dataType(), MOST_ROWS);
            default -> new Vectors.Longs(field.dataType(), 1);
        };
    }

    /** A split's reader. One thread. */
    private abstract class Reader implements PartitionReader<ColumnarBatch> {
        final RecordReader records;
        final Vectors.Vector[] vectors;
        final ColumnarBatch batch;
        long seen;

        Reader(RecordReader records, Split split) {
            this.records = records;
            StructField[] fields = schema.fields();
            vectors = new Vectors.Vector[fields.length];
            for (int at = 0; at < fields.length; at++) {
                vectors[at] = vector(fields[at], split);
            }
            batch = new ColumnarBatch(vectors.clone());
        }

        @Override
        public ColumnarBatch get() {
            return batch;
        }

        @Override
        public CustomTaskMetric[] currentMetricsValues() {
            return Metrics.of(records, seen);
        }

        @Override
        public void close() throws IOException {
            records.close();
        }
    }

    /** One row, with how many records there are; none of a group that has none. */
    private final class Counted extends Reader {
        private final boolean isEmpty;
        private boolean isDone;

        Counted(RecordReader records, Split split) {
            super(records, split);
            isEmpty = split.from() == split.until();
            batch.setNumRows(1);
        }

        @Override
        public boolean next() throws IOException {
            if (isDone) {
                return false;
            }
            isDone = true;
            seen = isEmpty ? 0 : records.count();
            for (Vectors.Vector vector : vectors) {
                if (vector instanceof Vectors.Longs longs) {
                    longs.values[0] = seen;
                }
            }
            return seen > 0 || isOfAll(schema);
        }
    }

    /** Records as they come. A batch's vectors are used again for the next one, as Spark's own readers do. */
    private final class Rows extends Reader {
        private final Vectors.Longs offsets = column("offset", Vectors.Longs.class);
        private final Vectors.Longs timestamps = column("timestamp", Vectors.Longs.class);
        private final Vectors.Ints timestampTypes = column("timestampType", Vectors.Ints.class);
        private final Vectors.Binaries keys = column("key", Vectors.Binaries.class);
        private final Vectors.Binaries values = column("value", Vectors.Binaries.class);
        private final Vectors.Headers headers = column("headers", Vectors.Headers.class);

        Rows(RecordReader records, Split split) {
            super(records, split);
        }

        private <T extends ColumnVector> T column(String name, Class<T> kind) {
            return has(name) ? kind.cast(vectors[schema.fieldIndex(name)]) : null;
        }

        @Override
        public boolean next() throws IOException {
            int rows = 0;
            long bytes = 0;
            for (Vectors.Vector vector : vectors) {
                vector.clear();
            }
            while (rows < MOST_ROWS && bytes < MOST_BYTES && records.next()) {
                if (offsets != null) {
                    offsets.values[rows] = records.offset();
                }
                if (timestamps != null) {
                    timestamps.values[rows] = records.timestamp();
                }
                if (timestampTypes != null) {
                    timestampTypes.values[rows] = records.timestampType();
                }
                if (keys != null) {
                    keys.add(rows, records.buffer(), records.keyStart(), records.keyLength());
                    bytes += records.keyLength();
                }
                if (values != null) {
                    values.add(rows, records.buffer(), records.valueStart(), records.valueLength());
                    bytes += records.valueLength();
                }
                if (headers != null) {
                    bytes += headers.add(rows, records);
                }
                rows++;
            }
            seen += rows;
            batch.setNumRows(rows);
            return rows > 0;
        }
    }
}
