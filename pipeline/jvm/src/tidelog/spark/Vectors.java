package tidelog.spark;

import java.util.Arrays;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import tidelog.log.RecordReader;

/**
 * Columns of a batch of rows: Spark's public class of vectors has no writable one. One thread; used again for batch after batch.
 */
final class Vectors {
    private Vectors() {}

    /** A vector without nulls, of whose getters one works. */
    abstract static class Vector extends ColumnVector {
        Vector(DataType type) {
            super(type);
        }

        /** Begin a batch. */
        void clear() {}

        @Override
        public void close() {}

        @Override
        public boolean hasNull() {
            return false;
        }

        @Override
        public int numNulls() {
            return 0;
        }

        @Override
        public boolean isNullAt(int row) {
            return false;
        }

        @Override
        public boolean getBoolean(int row) {
            throw other();
        }

        @Override
        public byte getByte(int row) {
            throw other();
        }

        @Override
        public short getShort(int row) {
            throw other();
        }

        @Override
        public int getInt(int row) {
            throw other();
        }

        @Override
        public long getLong(int row) {
            throw other();
        }

        @Override
        public float getFloat(int row) {
            throw other();
        }

        @Override
        public double getDouble(int row) {
            throw other();
        }

        @Override
        public ColumnarArray getArray(int row) {
            throw other();
        }

        @Override
        public ColumnarMap getMap(int row) {
            throw other();
        }

        @Override
        public Decimal getDecimal(int row, int precision, int scale) {
            throw other();
        }

        @Override
        public UTF8String getUTF8String(int row) {
            throw other();
        }

        @Override
        public byte[] getBinary(int row) {
            throw other();
        }

        @Override
        public ColumnVector getChild(int ordinal) {
            throw other();
        }

        private UnsupportedOperationException other() {
            return new UnsupportedOperationException("a column of " + type.simpleString());
        }
    }

    /** The same text in each row. */
    static final class Text extends Vector {
        private final UTF8String text;

        Text(String text) {
            super(DataTypes.StringType);
            this.text = UTF8String.fromString(text);
        }

        @Override
        public UTF8String getUTF8String(int row) {
            return text;
        }
    }

    /** The same number in each row. */
    static final class Number extends Vector {
        private final int number;

        Number(int number) {
            super(DataTypes.IntegerType);
            this.number = number;
        }

        @Override
        public int getInt(int row) {
            return number;
        }
    }

    static final class Ints extends Vector {
        final int[] values;

        Ints(int rows) {
            super(DataTypes.IntegerType);
            values = new int[rows];
        }

        @Override
        public int getInt(int row) {
            return values[row];
        }
    }

    /** Numbers, or timestamps in microseconds. */
    static final class Longs extends Vector {
        final long[] values;

        Longs(DataType type, int rows) {
            super(type);
            values = new long[rows];
        }

        @Override
        public long getLong(int row) {
            return values[row];
        }
    }

    /** Bytes, or texts that are bytes, one behind the other. Some may be null. */
    static final class Binaries extends Vector {
        private byte[] data = new byte[1 << 12];
        private int[] starts;
        private int[] lengths;
        private int end;
        private int nulls;

        Binaries(int rows) {
            this(DataTypes.BinaryType, rows);
        }

        Binaries(DataType type, int rows) {
            super(type);
            starts = new int[rows];
            lengths = new int[rows];
        }

        @Override
        void clear() {
            end = 0;
            nulls = 0;
        }

        /** Take a copy as the row's; a length of −1 is null. */
        void add(int row, byte[] from, int start, int length) {
            if (row == starts.length) {
                starts = Arrays.copyOf(starts, 2 * row);
                lengths = Arrays.copyOf(lengths, 2 * row);
            }
            starts[row] = end;
            lengths[row] = length;
            if (length < 0) {
                nulls++;
                return;
            }
            if (data.length - end < length) {
                long size = Math.min(Math.max(2L * data.length, (long) end + length), Integer.MAX_VALUE - 16);
                data = Arrays.copyOf(data, (int) size); // a record has less than 2 GiB, and there is at most 8 MiB before it
            }
            System.arraycopy(from, start, data, end, length);
            end += length;
        }

        @Override
        public boolean hasNull() {
            return nulls > 0;
        }

        @Override
        public int numNulls() {
            return nulls;
        }

        @Override
        public boolean isNullAt(int row) {
            return lengths[row] < 0;
        }

        @Override
        public byte[] getBinary(int row) {
            return isNullAt(row) ? null : Arrays.copyOfRange(data, starts[row], starts[row] + lengths[row]);
        }

        /** As Java and Python read bytes that are no UTF-8: a header with such a name shall not make the rest unreadable. */
        @Override
        public UTF8String getUTF8String(int row) {
            if (isNullAt(row)) {
                return null;
            }
            UTF8String text = UTF8String.fromBytes(data, starts[row], lengths[row]);
            return text.isValid() ? text.clone() : text.makeValid();
        }
    }

    /** Headers of each row; null where there are none, as with Spark's Kafka source. */
    static final class Headers extends Vector {
        private final Binaries names;
        private final Binaries values;
        private final Pairs pairs;
        private final int[] starts;
        private final int[] counts;
        private int end;

        Headers(DataType type, int rows) {
            super(type);
            StructType pair = (StructType) ((ArrayType) type).elementType();
            names = new Binaries(DataTypes.StringType, rows);
            values = new Binaries(DataTypes.BinaryType, rows);
            // Spark prunes within columns too: a query of headers.key asks for pairs of one field.
            pairs = new Pairs(pair, Arrays.stream(pair.fieldNames()).map(name -> name.equals("key") ? names : values)
                    .toArray(ColumnVector[]::new));
            starts = new int[rows];
            counts = new int[rows];
        }

        @Override
        void clear() {
            names.clear();
            values.clear();
            end = 0;
        }

        /** Take those of the reader's record; their bytes. */
        long add(int row, RecordReader records) {
            long bytes = 0;
            starts[row] = end;
            counts[row] = records.headerCount();
            for (int at = 0; at < counts[row]; at++) {
                names.add(end, records.buffer(), records.headerNameStart(at), records.headerNameLength(at));
                values.add(end, records.buffer(), records.headerValueStart(at), records.headerValueLength(at));
                bytes += records.headerNameLength(at) + Math.max(0, records.headerValueLength(at)) + 16L;
                end++;
            }
            return bytes;
        }

        @Override
        public boolean hasNull() {
            return true; // there may be: it is a hint
        }

        @Override
        public boolean isNullAt(int row) {
            return counts[row] == 0;
        }

        @Override
        public ColumnarArray getArray(int row) {
            return isNullAt(row) ? null : new ColumnarArray(pairs, starts[row], counts[row]);
        }

        @Override
        public ColumnVector getChild(int ordinal) {
            return pairs;
        }
    }

    private static final class Pairs extends Vector {
        private final ColumnVector[] children;

        Pairs(DataType type, ColumnVector... children) {
            super(type);
            this.children = children;
        }

        @Override
        public ColumnVector getChild(int ordinal) {
            return children[ordinal];
        }
    }
}
