package tidelog.spark;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Takes from Spark's optimizer what need not be read. The driver's, for one query. */
final class FilesScanBuilder implements ScanBuilder, SupportsPushDownV2Filters, SupportsPushDownRequiredColumns,
        SupportsPushDownAggregates {
    /** Begins the names of counts, and of no column. */
    static final String COUNT = "count ";
    /** The same in all rows of a split, so that each split can count for itself. */
    private static final List<String> OF_SPLITS = List.of("topic", "partition");

    private final String name;
    private final Options options;
    private StructType schema;
    private Narrowed.Taking filters = new Narrowed.Taking(new Predicate[0]);
    private boolean counts;

    FilesScanBuilder(String name, Options options, StructType schema) {
        this.name = name;
        this.options = options;
        this.schema = schema;
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] predicates) {
        filters = new Narrowed.Taking(predicates);
        return filters.left();
    }

    @Override
    public Predicate[] pushedPredicates() {
        return filters.taken();
    }

    @Override
    public void pruneColumns(StructType wanted) {
        schema = wanted;
    }

    /** Counts of rows, of all or by topic and partition. Spark adds up what each split has. */
    @Override
    public boolean pushAggregation(Aggregation aggregation) {
        StructType made = new StructType();
        for (Expression by : aggregation.groupByExpressions()) {
            if (!OF_SPLITS.contains(Narrowed.column(by))) {
                return false;
            }
            made = made.add(schema.apply(Narrowed.column(by)));
        }
        AggregateFunc[] functions = aggregation.aggregateExpressions();
        if (functions.length == 0 || !Arrays.stream(functions).allMatch(FilesScanBuilder::isCountOfRows)) {
            return false;
        }
        for (int at = 0; at < functions.length; at++) {
            made = made.add(COUNT + at, DataTypes.LongType);
        }
        schema = made;
        counts = true;
        return true;
    }

    private static boolean isCountOfRows(AggregateFunc function) {
        return function instanceof CountStar || function instanceof Count count && !count.isDistinct()
                && count.column() instanceof NamedReference
                && Narrowed.isNeverNull(Narrowed.column(count.column()));
    }

    @Override
    public Scan build() {
        return new FilesScan(name, options, schema, filters.narrowed(), counts);
    }
}
