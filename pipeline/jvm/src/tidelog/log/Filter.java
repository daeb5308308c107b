package tidelog.log;

import java.io.Serializable;

/** Wanted records by time, in ms since 1970, both ends included. Offsets are the reader's range. */
public record Filter(long minTimestamp, long maxTimestamp) implements Serializable {
    public static final Filter ALL = new Filter(Long.MIN_VALUE, Long.MAX_VALUE);
}
