package tidelog.log;

import java.io.Serializable;

/**
 * Wanted columns beside offset and timestamp type. Where a batch's header says all that is wanted, its records are not opened.
 */
public record Columns(boolean keys, boolean values, boolean headers, boolean timestamps) implements Serializable {
    /** No column: offsets alone, or a count. */
    public static final Columns NONE = new Columns(false, false, false, false);
}
