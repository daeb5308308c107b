package tidelog.log;

import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;

/**
 * Splits of a range by bytes, as {@code pipeline/planning/splits.py} makes them: they touch, do not overlap, and begin where a
 * segment or a batch of format 2 begins, at about even distances in bytes. Planning costs what it has splits: sizes come from the
 * listing, an index is searched only where a split begins inside a segment.
 */
final class SplitPlan implements Closeable {
    private final Split range;
    private final List<Segment> segments;
    private final double step;
    private final long low;
    private final int parts;
    // The segment, and its index, in which the last boundary was looked for: the next one is often in it too.
    private Segment opened;
    private FileChannel file;
    private SparseIndex index;

    private SplitPlan(Split range, List<Segment> segments, long splitBytes) throws IOException {
        this.range = range;
        this.segments = segments;
        Segment first = segments.get(0);
        Segment last = segments.get(segments.size() - 1);
        long below = 0;
        if (range.from() > first.baseOffset()) {
            try (SparseIndex found = SparseIndex.offsets(first)) {
                SparseIndex.Entry entry = found.floor(range.from());
                below = entry == null ? 0 : entry.position();
            }
        }
        long high = segments.subList(0, segments.size() - 1).stream().mapToLong(Segment::size).sum();
        try (SparseIndex found = SparseIndex.offsets(last)) {
            SparseIndex.Entry entry = found.ceiling(range.until());
            high += entry == null ? last.size() : entry.position();
        }
        low = Math.min(below, high);
        parts = (int) Math.rint((high - low) / (double) splitBytes);
        step = (high - low) / (double) Math.max(parts, 1);
    }

    /** Bytes of the range, as if the records of a segment were of one size. Opens nothing. */
    static long estimate(List<Segment> segments, Split range) {
        double total = 0;
        for (int i = 0; i < segments.size(); i++) {
            long base = segments.get(i).baseOffset();
            // The last segment is taken to end with the range, if that ends in it.
            long end = i + 1 < segments.size() ? segments.get(i + 1).baseOffset() : Math.max(range.until(), base + 1);
            long first = Math.max(range.from(), base);
            long until = Math.min(range.until(), end);
            if (first < until) {
                total += (double) segments.get(i).size() * (until - first) / (end - base);
            }
        }
        return (long) total;
    }

    /** Splits of about so many bytes; none where there are no segments. */
    static List<Split> plan(Split range, List<Segment> segments, long splitBytes) throws IOException {
        if (range.from() >= range.until() || segments.isEmpty()) {
            return List.of();
        }
        // Records may differ in size: a quarter leaves room for that, and whole segments are no guess.
        if (estimate(segments, range) <= splitBytes / 4 || segments.stream().mapToLong(Segment::size).sum() <= splitBytes) {
            return List.of(range);
        }
        try (SplitPlan planner = new SplitPlan(range, segments, splitBytes)) {
            return planner.cut();
        }
    }

    private List<Split> cut() throws IOException {
        List<Split> found = new ArrayList<>();
        long from = range.from();
        int number = 0;
        int least = -1;
        long begin = 0; // of the segment
        for (int part = 1; part < parts; part++) {
            long target = low + (long) (step * part);
            while (begin + segments.get(number).size() <= target) {
                begin += segments.get(number++).size();
            }
            if (number < least) {
                continue; // this boundary was not found before, and has become a segment's start
            }
            Boundary boundary = boundary(number, begin, target);
            if (boundary == null) {
                continue;
            }
            least = Math.max(least, boundary.segment);
            if (from < boundary.offset && boundary.offset < range.until()) {
                found.add(new Split(range.partition(), from, boundary.offset));
                from = boundary.offset;
            }
        }
        found.add(new Split(range.partition(), from, range.until()));
        return found;
    }

    /** Where a split may begin: its first offset, and the number of the segment in which that lies. */
    private record Boundary(int segment, long offset) {}

    /** Near byte {@code target}, which is in segment {@code number}; null: nowhere. */
    private Boundary boundary(int number, long begin, long target) throws IOException {
        long before = target - begin;
        long behind = begin + segments.get(number).size() - target;
        if (before <= behind && before <= step / 4) {
            return start(number);
        }
        if (behind <= step / 4) {
            return start(number + 1);
        }
        long offset = batchAt(segments.get(number), before);
        return offset < 0 ? start(number + 1) : new Boundary(number, offset);
    }

    private Boundary start(int number) {
        return number < segments.size() ? new Boundary(number, segments.get(number).baseOffset()) : null;
    }

    /** Base offset of a batch at that position or soon behind it; −1: no index tells of one. */
    private long batchAt(Segment segment, long position) throws IOException {
        if (segment != opened) {
            close();
            file = segment.open();
            index = SparseIndex.offsets(segment);
            opened = segment;
        }
        SparseIndex.Entry entry = file == null ? null : index.atPosition(position);
        return entry == null ? -1 : SparseIndex.batchStart(file, entry);
    }

    @Override
    public void close() throws IOException {
        if (file != null) {
            file.close();
        }
        if (index != null) {
            index.close();
        }
    }
}
