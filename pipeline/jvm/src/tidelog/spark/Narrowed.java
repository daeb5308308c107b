package tidelog.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import tidelog.log.Filter;
import tidelog.log.Partition;
import tidelog.log.Split;

/**
 * What filters leave of partitions, offsets and timestamps (ms). All ends are included; what is taken is taken exactly, so that
 * Spark need not look at it again, and a count may follow.
 *
 * <p>Timestamps of records are ms and Spark's are microseconds, made of them by multiplication, those that are too large for it
 * by the largest one.
 */
record Narrowed(long leastPartition, long mostPartition, long leastOffset, long mostOffset, long leastTime,
        long mostTime) implements Serializable {
    static final Narrowed NOTHING = new Narrowed(0, Integer.MAX_VALUE, 0, Long.MAX_VALUE, Long.MIN_VALUE, Long.MAX_VALUE);
    private static final List<String> NEVER_NULL = List.of("topic", "partition", "offset", "timestamp", "timestampType");
    /** Microseconds beyond which a timestamp may be one that was too large: year 148108. */
    private static final long FARTHEST = Long.MAX_VALUE / 2;

    static boolean isNeverNull(String column) {
        return NEVER_NULL.contains(column);
    }

    Filter times() {
        return new Filter(leastTime, mostTime);
    }

    /** Part of a range within the limits; null if nothing is left. */
    Split clip(Partition partition, long first, long end) {
        if (partition.number() < leastPartition || partition.number() > mostPartition || leastTime > mostTime
                || mostOffset < leastOffset) {
            return null;
        }
        long from = Math.max(first, leastOffset);
        long until = mostOffset == Long.MAX_VALUE ? end : Math.min(end, mostOffset + 1);
        return from < until ? new Split(partition, from, until) : null;
    }

    /** Takes predicates in, one after the other, and keeps those that it could not take exactly. */
    static final class Taking {
        private Narrowed narrowed = NOTHING;
        private final List<Predicate> taken = new ArrayList<>();
        private final List<Predicate> left = new ArrayList<>();

        Taking(Predicate[] predicates) {
            for (Predicate predicate : predicates) {
                Narrowed after = narrowed.and(predicate);
                narrowed = after == null ? narrowed : after;
                (after == null ? left : taken).add(predicate);
            }
        }

        Narrowed narrowed() {
            return narrowed;
        }

        Predicate[] taken() {
            return taken.toArray(Predicate[]::new);
        }

        Predicate[] left() {
            return left.toArray(Predicate[]::new);
        }
    }

    /** The limits with those of a predicate; null if they do not say all that it says. */
    private Narrowed and(Predicate predicate) {
        Expression[] parts = predicate.children();
        switch (predicate.name()) {
            case "ALWAYS_TRUE":
                return this;
            case "AND":
                Narrowed first = parts[0] instanceof Predicate one ? and(one) : null;
                return first != null && parts[1] instanceof Predicate other ? first.and(other) : null;
            case "IS_NOT_NULL": // which Spark adds to each comparison
                return isNeverNull(column(parts[0])) ? this : null;
            case "=", "<=>", "<", "<=", ">", ">=":
                return compared(column(parts[0]), predicate.name(), parts[1]);
            case "IN":
                return parts.length == 2 ? compared(column(parts[0]), "=", parts[1]) : null;
            default:
                return null;
        }
    }

    static String column(Expression expression) {
        return expression instanceof NamedReference reference && reference.fieldNames().length == 1 ? reference.fieldNames()[0]
                : "";
    }

    private Narrowed compared(String column, String comparison, Expression with) {
        if (!(with instanceof Literal<?> literal) || !(literal.value() instanceof Number number)) {
            return null; // so is null, to which nothing compares
        }
        long value = number.longValue();
        boolean isLeast = comparison.startsWith(">") || comparison.equals("=") || comparison.equals("<=>");
        boolean isMost = comparison.equals("<") || !comparison.startsWith(">");
        switch (column) {
            case "partition", "offset":
                if (!isOf(literal.dataType(), DataTypes.IntegerType, DataTypes.LongType)) {
                    return null;
                }
                if (value == Long.MIN_VALUE || value == Long.MAX_VALUE) {
                    return null; // no room for the one beside it
                }
                long least = isLeast ? comparison.equals(">") ? value + 1 : value : Long.MIN_VALUE;
                long most = isMost ? comparison.equals("<") ? value - 1 : value : Long.MAX_VALUE;
                return column.equals("offset")
                        ? new Narrowed(
                                leastPartition, mostPartition, Math.max(leastOffset, least), Math.min(mostOffset, most),
                                leastTime, mostTime)
                        : new Narrowed(
                                Math.max(leastPartition, least), Math.min(mostPartition, most), leastOffset, mostOffset,
                                leastTime, mostTime);
            case "timestamp":
                if (!isOf(literal.dataType(), DataTypes.TimestampType) || value > FARTHEST || value < -FARTHEST) {
                    return null;
                }
                long first = comparison.equals(">") ? Math.floorDiv(value, 1000) + 1 : -Math.floorDiv(-value, 1000);
                long last = comparison.equals("<") ? -Math.floorDiv(-value, 1000) - 1 : Math.floorDiv(value, 1000);
                return new Narrowed(
                        leastPartition, mostPartition, leastOffset, mostOffset, isLeast ? Math.max(leastTime, first) : leastTime,
                        isMost ? Math.min(mostTime, last) : mostTime);
            default:
                return null;
        }
    }

    private static boolean isOf(DataType type, DataType... kinds) {
        return List.of(kinds).contains(type);
    }
}
