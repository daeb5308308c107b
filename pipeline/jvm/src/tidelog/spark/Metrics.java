package tidelog.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import tidelog.log.RecordReader;

/**
 * What Spark's pages and listeners tell of a read, beside its rows. Spark makes the metrics by their names, so they are public.
 */
public final class Metrics {
    private Metrics() {}

    static CustomMetric[] supported() {
        return new CustomMetric[] {new Records(), new BytesRead(), new DamagedBatches()};
    }

    static CustomTaskMetric[] of(RecordReader reader, long records) {
        return new CustomTaskMetric[] {
            new Value(new Records().name(), records), new Value(new BytesRead().name(), reader.bytesRead()),
            new Value(new DamagedBatches().name(), reader.skippedBatches())};
    }

    private record Value(String name, long value) implements CustomTaskMetric {}

    /** Records that are rows, or in a count. */
    public static final class Records extends CustomSumMetric {
        @Override
        public String name() {
            return "records";
        }

        @Override
        public String description() {
            return "records read or counted";
        }
    }

    /** Bytes of files. */
    public static final class BytesRead extends CustomSumMetric {
        @Override
        public String name() {
            return "bytesRead";
        }

        @Override
        public String description() {
            return "bytes read from segment files";
        }
    }

    /** Batches that were left out, with corruptBatches=skip. */
    public static final class DamagedBatches extends CustomSumMetric {
        @Override
        public String name() {
            return "damagedBatches";
        }

        @Override
        public String description() {
            return "damaged batches left out";
        }
    }
}
