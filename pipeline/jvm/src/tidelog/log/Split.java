package tidelog.log;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/** Offsets [from, until) of a partition: what one task reads. Where its bytes lie the reader finds by the index. */
public record Split(Partition partition, long from, long until) implements Serializable {
    /** The split in even parts of at most so many offsets. */
    public List<Split> cut(long mostOffsets) {
        long offsets = until - from;
        long parts = Math.max(1, (offsets + mostOffsets - 1) / mostOffsets);
        List<Split> found = new ArrayList<>();
        for (long part = 0, low = from; part < parts; part++) {
            // The product may not fit: whole steps, and one more for each of the first ones.
            long high = low + offsets / parts + (part < offsets % parts ? 1 : 0);
            found.add(new Split(partition, low, high));
            low = high;
        }
        return found;
    }
}
