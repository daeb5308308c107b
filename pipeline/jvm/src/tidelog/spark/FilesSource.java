package tidelog.spark;

import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("tidelog-files")}: topics as tables and streams, read from log directories by Spark's own processes. Rows,
 * columns and options are those of {@code format("tidelog")} over files (pipeline/source.py), as far as this source goes. Made by
 * Spark through META-INF/services.
 */
public final class FilesSource implements TableProvider, DataSourceRegister {
    static final String NAME = "tidelog-files";
    private static final StructType HEADER = new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
    /** That of Spark's Kafka source; with includeHeaders the last field too. */
    private static final StructType SCHEMA = new StructType()
            .add("key", DataTypes.BinaryType).add("value", DataTypes.BinaryType).add("topic", DataTypes.StringType)
            .add("partition", DataTypes.IntegerType).add("offset", DataTypes.LongType).add("timestamp", DataTypes.TimestampType)
            .add("timestampType", DataTypes.IntegerType).add("headers", new ArrayType(HEADER, true));

    /** Properties of a table of Spark's catalog that are nobody's options. */
    private static final Set<String> OF_THE_CATALOG = Set.of(
            "provider", "owner", "comment", "collation", "external", "is_managed_location", "location");

    @Override
    public String shortName() {
        return NAME;
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap given) {
        Options options = Options.parse(given(given.asCaseSensitiveMap()));
        if (options.columns().isEmpty()) {
            StructField[] fields = SCHEMA.fields();
            return options.includeHeaders() ? SCHEMA : new StructType(Arrays.copyOf(fields, fields.length - 1));
        }
        List<StructField> chosen = new ArrayList<>();
        for (String name : options.columns()) {
            if (!Arrays.asList(SCHEMA.fieldNames()).contains(name)) {
                throw new OptionException("columns names " + name + ", which is no column of the source"
                        + Options.hint(name, List.of(SCHEMA.fieldNames())));
            }
            chosen.add(SCHEMA.apply(name));
        }
        return new StructType(chosen.toArray(StructField[]::new));
    }

    /** A schema of the user's own chooses columns, as the option does. */
    @Override
    public boolean supportsExternalMetadata() {
        return true;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        Options options = Options.parse(given(properties));
        String there = Arrays.stream(SCHEMA.fields()).map(FilesSource::told).collect(Collectors.joining(", "));
        for (StructField field : schema.fields()) {
            boolean isKnown = Arrays.stream(SCHEMA.fields()).anyMatch(known -> told(known).equals(told(field)));
            if (!isKnown) {
                throw new OptionException("the schema has " + told(field) + "; the source has " + there);
            }
        }
        if (!options.columns().isEmpty() && !options.columns().equals(List.of(schema.fieldNames()))) {
            throw new OptionException(
                    "columns says " + String.join(", ", options.columns()) + " and the schema "
                    + String.join(", ", schema.fieldNames())
                            + ": leave one of them out");
        }
        return new FilesTable(options, schema);
    }

    /** Options without what Spark's catalog adds for a table: it makes a URI of `path`, and has one where there is none. */
    private static Map<String, String> given(Map<String, String> properties) {
        if (!properties.containsKey("provider")) {
            return properties;
        }
        Map<String, String> found = new HashMap<>(properties);
        found.keySet().removeIf(name -> OF_THE_CATALOG.contains(name) || name.startsWith("option."));
        String path = found.get("path");
        if (found.containsKey("paths")) {
            found.remove("path");
        } else if (path != null && path.startsWith("file:")) {
            found.put("path", URI.create(path).getPath());
        }
        return found;
    }

    private static String told(StructField field) {
        return field.name() + " " + field.dataType().simpleString();
    }

    /** Topics with these options. Equal to no other: what one frame has cached is not what another one finds now. */
    private static final class FilesTable implements Table, SupportsRead {
        private final Options options;
        private final StructType fields;

        FilesTable(Options options, StructType fields) {
            this.options = options;
            this.fields = fields;
        }

        @Override
        public String name() {
            String topics = options.pattern() != null ? options.pattern()
                    : String.join(",", options.assigned() != null ? options.assigned().keySet() : options.topics());
            return NAME + " " + topics;
        }

        @Override
        @SuppressWarnings("deprecation") // Spark's Table declares it without a body
        public StructType schema() {
            return fields;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
        }

        /** The options are those that the table was made with, which are the same. */
        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap again) {
            return new FilesScanBuilder(name(), options, fields);
        }
    }
}
