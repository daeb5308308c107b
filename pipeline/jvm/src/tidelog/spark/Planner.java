package tidelog.spark;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import tidelog.log.Bounds;
import tidelog.log.CorruptLogException;
import tidelog.log.DataLostException;
import tidelog.log.LogDirectory;
import tidelog.log.Partition;
import tidelog.log.Split;
import tidelog.log.SplitSize;

/**
 * Which offsets of which partitions are read, and in which splits: what pipeline/planning/batch_plan.py is for the source in
 * Python, with its words. The driver's; one thread at a time; blocks. LogException, OptionException.
 */
final class Planner {
    final Options options;
    private final int cores;
    private final LogDirectory directory;

    /** {@code cores}: of the cluster, 0 if unknown. LogException: a path is no data directory. */
    Planner(Options options, int cores) throws IOException {
        this.options = options;
        this.cores = cores;
        directory = LogDirectory.open(options.paths().stream().map(Path::of).toArray(Path[]::new));
    }

    /** The splits of a batch read, with what filters leave of it. */
    List<Split> batch(Narrowed narrowed) throws IOException {
        Map<Partition, Bounds> look = look();
        Map<Partition, Long> starts = starts(look, Options.EARLIEST);
        Map<Partition, Long> ends = offsets(options.ending(), look, Options.LATEST, false);
        List<Split> ranges = new ArrayList<>();
        for (Partition partition : look.keySet()) {
            Bounds there = look.get(partition);
            long first = starts.get(partition);
            long end = ends.get(partition);
            if (options.failOnDataLoss()) {
                checkStart(partition, first, there);
                if (end > there.end()) {
                    throw above(partition, end, there);
                }
            }
            Split range = narrowed.clip(partition, Math.max(first, there.start()), Math.min(end, there.end()));
            if (range != null) {
                ranges.add(range);
            }
        }
        return splits(since(ranges, narrowed.leastTime()));
    }

    /** Partitions that the options choose, in order, and what can be read of them: all at one moment. */
    Map<Partition, Bounds> look() throws IOException {
        return directory.bounds(chosen(), options.readCommitted());
    }

    private List<Partition> chosen() throws IOException {
        if (options.assigned() == null) {
            List<String> topics = options.topics();
            if (options.pattern() != null) {
                Pattern pattern = Pattern.compile(options.pattern());
                topics = directory.topics().stream().filter(topic -> pattern.matcher(topic).matches()
                        && !LogDirectory.INTERNAL_TOPICS.contains(topic)).toList();
            }
            return directory.partitions(topics);
        }
        List<Partition> found = new ArrayList<>();
        for (Map.Entry<String, List<Integer>> wanted : options.assigned().entrySet()) {
            Map<Integer, Partition> there = new TreeMap<>();
            directory.partitions(List.of(wanted.getKey())).forEach(partition -> there.put(partition.number(), partition));
            for (int number : wanted.getValue()) {
                if (!there.containsKey(number)) {
                    String listed = there.keySet().stream().map(String::valueOf).collect(Collectors.joining(", "));
                    throw new OptionException("assign: there is no " + wanted.getKey() + "-" + number + "; " + wanted.getKey()
                            + " has " + listed);
                }
                found.add(there.get(number));
            }
        }
        return found;
    }

    /** Ids of the topics, as far as they are known. */
    static Map<String, String> topicIds(Iterable<Partition> partitions) {
        Map<String, String> found = new TreeMap<>();
        for (Partition partition : partitions) {
            if (!partition.topicId().isEmpty()) {
                found.putIfAbsent(partition.topic(), partition.topicId());
            }
        }
        return found;
    }

    /** Start offset of each partition. {@code otherwise}: EARLIEST or LATEST, the default. */
    Map<Partition, Long> starts(Map<Partition, Bounds> look, long otherwise) throws IOException {
        Map<Partition, Long> found = offsets(options.starting(), look, otherwise, true);
        if (options.starting() == null || !options.starting().isTime()) {
            Set<String> anew = madeAnew(options.startingIds(), topicIds(look.keySet()));
            look.forEach((partition, there) ->
                    found.computeIfPresent(partition, (same, start) -> anew.contains(same.topic()) ? there.start() : start));
        }
        return found;
    }

    /** Topics that have other ids now than are known of them; DataLostException for the first, unless nobody wants to know. */
    Set<String> madeAnew(Map<String, String> known, Map<String, String> now) throws DataLostException {
        Set<String> found = new LinkedHashSet<>();
        for (Map.Entry<String, String> each : new TreeMap<>(known).entrySet()) {
            String topic = each.getKey();
            String other = now.getOrDefault(topic, each.getValue());
            if (other.equals(each.getValue())) {
                continue;
            }
            if (options.failOnDataLoss()) {
                throw lost(topic + ": deleted and made anew (it had the id " + each.getValue() + ", and has " + other
                        + "), with the records that were to be "
                        + "read; set failOnDataLoss to false to read the new one from its beginning");
            }
            found.add(topic);
        }
        return found;
    }

    /** DataLostException when the offset lies outside of what there is. Gaps between are compaction's, and no loss. */
    void checkStart(Partition partition, long offset, Bounds bounds) throws IOException {
        if (offset < bounds.start()) {
            throw lost(partition + ": offset " + offset + " was asked for, and the log starts at " + bounds.start() + ": "
                    + directory.whyGone(partition, bounds.start())
                    + " what lies before; set failOnDataLoss to false to read what there is");
        }
        if (offset > bounds.end()) {
            throw above(partition, offset, bounds);
        }
    }

    /** DataLostException when a partition that is new to a stream has lost its beginning. */
    void checkNew(Partition partition, Bounds bounds) throws IOException {
        if (bounds.start() > 0) {
            throw lost(partition + ": a new partition, and the log starts at " + bounds.start() + " already: "
                    + directory.whyGone(partition, bounds.start())
                    + " what lies before; set failOnDataLoss to false to go on without");
        }
    }

    static DataLostException lost(String message) {
        return new DataLostException(message);
    }

    private static DataLostException above(Partition partition, long offset, Bounds bounds) {
        return lost(partition + ": offset " + offset + " was asked for, and the log ends at " + bounds.end()
                + ": it was truncated, or the topic was deleted "
                + "and made anew, or these are newer records than can be read yet; "
                + "set failOnDataLoss to false to read what there is");
    }

    /** Splits of the size, the number and the offsets that are wished. */
    List<Split> splits(List<Split> ranges) throws IOException {
        List<Split> splits = directory.splits(ranges, new SplitSize(options.splitBytes(), options.minPartitions(), cores));
        long most = options.mostRecords() == 0 ? Long.MAX_VALUE : options.mostRecords();
        if (!splits.isEmpty()
                && splits.size() < options.minPartitions()) { // too small to be cut by bytes: even numbers of offsets
            long offsets = splits.stream().mapToLong(split -> split.until() - split.from()).sum();
            most = Math.min(most, Math.max(1, offsets / options.minPartitions()));
        }
        long limit = most;
        return limit == Long.MAX_VALUE ? splits : splits.stream().flatMap(split -> split.cut(limit).stream()).toList();
    }

    /**
     * The ranges from the first record with that timestamp or a later one on. Timestamps are in no order: there may be older ones
     * behind it, and nothing tells of the last one below another time.
     */
    private List<Split> since(List<Split> ranges, long timestamp) throws IOException {
        if (timestamp <= 0) {
            return ranges;
        }
        List<Split> kept = new ArrayList<>();
        for (Split range : ranges) {
            try {
                OptionalLong offset =
                        directory.offsetForTimestamp(range.partition(), timestamp, new Bounds(range.from(), range.until()));
                if (offset.isPresent()) {
                    kept.add(new Split(range.partition(), offset.getAsLong(), range.until()));
                }
            } catch (CorruptLogException error) {
                kept.add(range); // the reader tells it, or leaves it out
            }
        }
        return kept;
    }

    private Map<Partition,
            Long> offsets(Options.Bound said, Map<Partition, Bounds> look, long otherwise, boolean isStart) throws IOException {
        Map<Partition, Long> found = new HashMap<>();
        if (said == null || !said.isTime()) {
            if (said != null) {
                refuseStrangers(said, look);
            }
            look.forEach((partition, there) -> {
                long wanted = said == null ? otherwise : said.of(partition);
                found.put(partition, wanted == Options.EARLIEST ? there.start() : wanted == Options.LATEST ? there.end()
                        : wanted);
            });
            return found;
        }
        refuseStrangers(said, look);
        Map<Partition, Bounds> whole = directory.bounds(look.keySet(), false);
        for (Partition partition : look.keySet()) {
            Bounds there = look.get(partition);
            OptionalLong offset = directory.offsetForTimestamp(partition, said.of(partition), whole.get(partition));
            if (offset.isEmpty() && isStart && !options.latestIfTooYoung()) {
                throw new OptionException(
                        said.name() + ": " + partition + " has no record of " + said.of(partition)
                        + " or later; set startingOffsetsByTimestampStrategy to "
                                + "latest to begin at its end");
            }
            found.put(partition, Math.min(Math.max(offset.orElse(there.end()), there.start()), there.end()));
        }
        return found;
    }

    /** A typing error is not passed over: OptionException for a partition that is not among those that are read. */
    private static void refuseStrangers(Options.Bound said, Map<Partition, Bounds> look) {
        Map<String, Set<Integer>> there = new LinkedHashMap<>();
        look.keySet().forEach(partition ->
                there.computeIfAbsent(partition.topic(), topic -> new LinkedHashSet<>()).add(partition.number()));
        List<String> strangers = new ArrayList<>();
        said.each().forEach((topic, numbers) -> numbers.keySet().forEach(number -> {
            if (!there.getOrDefault(topic, Set.of()).contains(number)) {
                strangers.add(topic + "-" + number);
            }
        }));
        if (!strangers.isEmpty()) {
            String named = String.join(", ", strangers.subList(0, Math.min(5, strangers.size())));
            throw new OptionException(said.name() + " names " + named + ", which is not among what is read");
        }
    }
}
