package tidelog.spark;

import java.io.IOException;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import tidelog.log.Bounds;
import tidelog.log.Partition;
import tidelog.log.Split;

/**
 * Where a stream begins, how far a trigger goes, what it reads: what pipeline/planning/stream_plan.py is for the source in
 * Python. Partitions and bounds are looked at with each trigger, so that new partitions are found; those begin with their first
 * record. One thread at a time.
 */
final class FilesStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    private final FilesScan scan;
    private final Planner planner;
    private final FirstOffset first;
    private final Options options;
    private final LongSupplier nanoTime;
    /** Where a query with availableNow ends. */
    private Position target;
    /** The ends at the last look. */
    private Position latest;
    private long lastTrigger;

    FilesStream(FilesScan scan, Planner planner, FirstOffset first, LongSupplier nanoTime) {
        this.scan = scan;
        this.planner = planner;
        this.first = first;
        this.nanoTime = nanoTime;
        options = planner.options;
        lastTrigger = nanoTime.getAsLong();
    }

    @Override
    public Offset initialOffset() {
        return FilesScan.unchecked(() -> {
            Position known = first.read();
            if (known != null) {
                return known;
            }
            Map<Partition, Bounds> look = planner.look();
            Map<Partition, Long> starts = planner.starts(look, Options.LATEST);
            for (Partition partition : look.keySet()) {
                Bounds there = look.get(partition);
                if (options.failOnDataLoss()) {
                    planner.checkStart(partition, starts.get(partition), there);
                }
                starts.put(partition, Math.min(Math.max(starts.get(partition), there.start()), there.end()));
            }
            Position position = new Position(starts);
            first.write(position);
            return position;
        });
    }

    @Override
    public Offset deserializeOffset(String json) {
        return new Position(json);
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
        return options.mostOffsets() > 0 ? ReadLimit.maxRows(options.mostOffsets())
                : options.leastOffsets() > 0 ? ReadLimit.minRows(options.leastOffsets(), options.delayMs())
                : ReadLimit.allAvailable();
    }

    @Override
    public Offset latestOffset() {
        throw new UnsupportedOperationException("Spark asks with a limit");
    }

    /**
     * Both limits are the options', whichever Spark names. The start comes back when there is nothing, or not enough, to read.
     */
    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        return FilesScan.unchecked(() -> next(Position.of(start), !(limit instanceof ReadAllAvailable)));
    }

    @Override
    public Offset reportLatestOffset() {
        return FilesScan.unchecked(this::available);
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        target = FilesScan.unchecked(this::available);
    }

    private Position available() throws IOException {
        return available(planner.look());
    }

    private Position available(Map<Partition, Bounds> look) {
        Map<Partition, Long> ends = new LinkedHashMap<>();
        look.forEach((partition, there) -> ends.put(partition, there.end()));
        latest = new Position(ends);
        return latest;
    }

    private Position next(Position start, boolean isLimited) throws IOException {
        Map<Partition, Bounds> look = planner.look();
        Map<Partition, Long> begin = begin(start, look);
        available(look);
        Map<Partition, Long> sizes = new LinkedHashMap<>();
        look.forEach((partition, there) -> {
            Long last = target == null ? Long.valueOf(there.end()) : target.of(partition);
            if (last != null) { // a partition that has come since the query was told to end is not for it
                sizes.put(partition, Math.max(0, Math.min(there.end(), last) - begin.get(partition)));
            }
        });
        long total = sizes.values().stream().mapToLong(Long::longValue).sum();
        if (isLimited && shouldWait(total)) {
            return start;
        }
        if (total > 0) {
            lastTrigger = nanoTime.getAsLong();
        }
        boolean isTooMuch = isLimited && options.mostOffsets() > 0 && total > options.mostOffsets();
        Map<Partition, Long> ends = new LinkedHashMap<>(isTooMuch ? shared(sizes, options.mostOffsets()) : sizes);
        ends.replaceAll((partition, size) -> begin.get(partition) + size);
        Position end = new Position(ends);
        return end.isAt(start) ? start : end; // with the text of the start, by which Spark sees that there is nothing new
    }

    /** True if minOffsetsPerTrigger is not reached; never with availableNow, which would not come to an end. */
    private boolean shouldWait(long total) {
        return total < options.leastOffsets() && target == null
                && nanoTime.getAsLong() - lastTrigger < TimeUnit.MILLISECONDS.toNanos(options.delayMs());
    }

    /** Offset at which each existing partition goes on; loss of data is reported unless that is switched off. */
    private Map<Partition, Long> begin(Position start, Map<Partition, Bounds> look) throws IOException {
        boolean isCareful = options.failOnDataLoss();
        checkThere(start, look.keySet());
        Set<String> anew = planner.madeAnew(start.topicIds(), Planner.topicIds(look.keySet()));
        Map<Partition, Long> begin = new HashMap<>();
        for (Partition partition : look.keySet()) {
            Bounds there = look.get(partition);
            Long offset = anew.contains(partition.topic()) ? null : start.of(partition);
            if (isCareful && offset == null) {
                planner.checkNew(partition, there);
            } else if (isCareful) {
                planner.checkStart(partition, offset, there);
            }
            // Without care a log that became shorter is read on from its end.
            begin.put(partition, offset == null ? there.start() : Math.min(Math.max(offset, there.start()), there.end()));
        }
        return begin;
    }

    /** DataLostException for partitions of the position that are gone. */
    private void checkThere(Position position, Set<Partition> look) throws IOException {
        Set<String> there = look.stream().map(Partition::toString).collect(Collectors.toSet());
        List<String> gone = new ArrayList<>();
        position.offsets().forEach((topic, numbers) -> numbers.keySet().stream().map(number -> topic + "-" + number)
                .filter(name -> !there.contains(name)).forEach(gone::add));
        if (options.failOnDataLoss() && !gone.isEmpty()) {
            throw Planner.lost(String.join(", ", gone)
                    + ": gone; the topic was deleted, or is not among those that are read any more; set "
                    + "failOnDataLoss to false to go on without");
        }
    }

    /**
     * So many offsets, fewer than there are, over partitions in proportion to what each has; one at least, if there are enough.
     */
    static Map<Partition, Long> shared(Map<Partition, Long> sizes, long most) {
        List<Partition> waiting = sizes.keySet().stream().filter(partition -> sizes.get(partition) > 0)
                .sorted(Comparator.comparing((Partition partition) -> -sizes.get(partition)).thenComparing(Partition::topic)
                        .thenComparing(Partition::number))
                .limit(most).toList();
        Map<Partition, Long> found = new LinkedHashMap<>(sizes);
        found.replaceAll((partition, size) -> 0L);
        long left = most - waiting.size();
        long total = Math.max(1, waiting.stream().mapToLong(partition -> sizes.get(partition) - 1).sum());
        long rest = most;
        for (Partition partition : waiting) {
            BigInteger product = BigInteger.valueOf(sizes.get(partition) - 1).multiply(BigInteger.valueOf(left));
            long share = 1 + product.divide(BigInteger.valueOf(total)).longValueExact();
            found.put(partition, share);
            rest -= share;
        }
        for (Partition partition : waiting) { // remainder of rounding: less than one for each
            long extra = Math.min(Math.min(rest, 1), sizes.get(partition) - found.get(partition));
            found.merge(partition, extra, Long::sum);
            rest -= extra;
        }
        return found;
    }

    @Override
    public InputPartition[] planInputPartitions(Offset from, Offset until) {
        Position end = Position.of(until);
        return scan.tasks(FilesScan.unchecked(() -> splits(end.first() == null ? Position.of(from) : end.first(), end)));
    }

    private List<Split> splits(Position start, Position end) throws IOException {
        Map<Partition, Bounds> look = new LinkedHashMap<>(planner.look());
        checkThere(end, look.keySet()); // also what was new to this batch when it was planned
        look.keySet().removeIf(partition -> end.of(partition) == null);
        Map<Partition, Long> begin = begin(start, look);
        Set<String> anew = planner.madeAnew(end.topicIds(), Planner.topicIds(look.keySet()));
        List<Split> ranges = new ArrayList<>();
        for (Partition partition : look.keySet()) {
            Bounds there = look.get(partition);
            long last = end.of(partition);
            if (anew.contains(partition.topic())) {
                continue; // records of a topic that was made anew are gone with it; the next trigger begins with the new one
            }
            if (last > there.end() && options.failOnDataLoss()) {
                planner.checkStart(partition, last, there);
            }
            Split range = scan.narrowed().clip(partition, begin.get(partition), Math.min(last, there.end()));
            if (range != null) {
                ranges.add(range);
            }
        }
        return planner.splits(ranges);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return scan.createReaderFactory();
    }

    /** Offsets between the end of the last batch and the end of the log, by the names of Spark's Kafka source. */
    @Override
    public Map<String, String> metrics(Optional<Offset> latestConsumed) {
        if (latestConsumed.isEmpty() || latest == null) {
            return Map.of();
        }
        Position consumed = Position.of(latestConsumed.get());
        LongSummaryStatistics behind = new LongSummaryStatistics();
        latest.offsets().forEach((topic, numbers) -> numbers.forEach((number, end) -> {
            Map<Integer, Long> known = consumed.offsets().get(topic);
            behind.accept(Math.max(0, end - (known == null ? 0 : known.getOrDefault(number, 0L))));
        }));
        if (behind.getCount() == 0) {
            return Map.of();
        }
        return Map.of(
                "minOffsetsBehindLatest", String.valueOf(behind.getMin()), "maxOffsetsBehindLatest",
                String.valueOf(behind.getMax()),
                "avgOffsetsBehindLatest", String.valueOf(behind.getAverage()));
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
}
