package tidelog.log;

import java.io.IOException;
import java.io.StringReader;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Data directories of one daemon, read from outside while it runs or after: topics, bounds, splits. One thread at a time; blocks.
 *
 * <p>Bounds are those of the checkpoints, as in {@code pipeline/planning/log_directory.py}: the log start offset, the high
 * watermark of the last few seconds and, for readers of committed data, the last stable offset. A stream keeps one and looks
 * again with each trigger.
 */
public final class LogDirectory {
    /** Kafka keeps its own state in them; a pattern does not choose them, a name does. */
    public static final Set<String> INTERNAL_TOPICS = Set.of("__consumer_offsets", "__transaction_state", "__share_group_state");
    private static final String STARTS = "log-start-offset-checkpoint";
    private static final String ENDS = "replication-offset-checkpoint";
    private static final Pattern LIVE = Pattern.compile("([a-zA-Z0-9._-]{1,249})-(0|[1-9]\\d{0,9})");
    /** What a ledger has removed; a pass that is under way comes behind it, in one of its own. */
    private static final Pattern REMOVED = Pattern.compile("\\{\"version\":1,[^{}]*\"removed\":\\{([^{}]*)\\}");
    private static final Pattern COUNT = Pattern.compile("\\d{1,19}");

    private final List<Path> paths;
    private final SegmentLists lists = new SegmentLists();
    private final Map<Partition, OpenTransactions> scans = new HashMap<>();
    private SortedMap<String, SortedMap<Integer, Path>> homes = new TreeMap<>();

    private LogDirectory(List<Path> paths) throws IOException {
        this.paths = paths;
        look();
    }

    /** Open the daemon's log.dirs. LogException: one of them is not there, or a newer daemon's. */
    public static LogDirectory open(Path... paths) throws IOException {
        return new LogDirectory(List.of(paths));
    }

    private void look() throws IOException {
        SortedMap<String, SortedMap<Integer, Path>> found = new TreeMap<>();
        for (Path path : paths) {
            if (!Files.isDirectory(path)) {
                throw new LogException(path + ": there is no such directory; path is a daemon's log.dirs");
            }
            checkMetaProperties(path.resolve("meta.properties"));
            try (var entries = Files.newDirectoryStream(path, "*-*")) {
                for (Path entry : entries) {
                    Matcher parsed = LIVE.matcher(entry.getFileName().toString());
                    if (!parsed.matches() || parsed.group(1).matches("\\.\\.?")) {
                        continue;
                    }
                    long number = Long.parseLong(parsed.group(2));
                    if (number <= Integer.MAX_VALUE && Files.isDirectory(entry)) {
                        found.computeIfAbsent(parsed.group(1), topic -> new TreeMap<>()).put((int) number, entry);
                    }
                }
            } catch (DirectoryIteratorException error) {
                throw error.getCause();
            }
        }
        homes = found;
    }

    private static void checkMetaProperties(Path path) throws IOException {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(Files.readString(path)));
        } catch (NoSuchFileException error) {
            return;
        } catch (CharacterCodingException | IllegalArgumentException error) {
            throw new LogException(path + ": is not a file of properties; was it written by a newer daemon?");
        }
        String version = properties.getProperty("version", "");
        String node = properties.getProperty(version.equals("0") ? "broker.id" : "node.id", "");
        if (!version.matches("[01]") || !node.matches("[0-9]{1,10}")
                || !properties.getProperty("cluster.id", "").matches("\\S{1,255}")) {
            throw new LogException(path + ": has no version 0 or 1, node and cluster; was it written by a newer daemon?");
        }
    }

    private String listed() {
        return paths.stream().map(Path::toString).collect(Collectors.joining(", "));
    }

    /** All topics in order, internal ones too; looks anew. */
    public List<String> topics() throws IOException {
        look();
        return List.copyOf(homes.keySet());
    }

    /** The topics' partitions in order of topics as given and of numbers; looks anew. LogException: no such topic. */
    public List<Partition> partitions(Collection<String> topics) throws IOException {
        look();
        List<Partition> found = new ArrayList<>();
        for (String topic : topics) {
            SortedMap<Integer, Path> numbers = homes.get(topic);
            if (numbers == null) {
                String there = homes.keySet().stream().filter(name ->
                        !INTERNAL_TOPICS.contains(name)).collect(Collectors.joining(", "));
                throw new LogException(listed() + ": no topic " + topic + " here; there are "
                        + (there.isEmpty() ? "none" : there));
            }
            String id = "";
            for (Path directory : numbers.values()) {
                if (!(id = TopicId.read(directory)).isEmpty()) {
                    break; // all partitions of a topic say the same
                }
            }
            for (Map.Entry<Integer, Path> number : numbers.entrySet()) {
                found.add(new Partition(topic, number.getKey(), number.getValue().toString(), id));
            }
        }
        return found;
    }

    /** Readable offsets of each; the checkpoints are parsed once for all of them. The map has the order of {@code wanted}. */
    public Map<Partition, Bounds> bounds(Collection<Partition> wanted, boolean readCommitted) throws IOException {
        Map<Path, Map<String, Long>> starts = new HashMap<>();
        Map<Path, Map<String, Long>> ends = new HashMap<>();
        Map<Partition, Bounds> found = new LinkedHashMap<>();
        for (Partition partition : wanted) {
            Path directory = Path.of(partition.directory());
            Path home = directory.getParent();
            if (!starts.containsKey(home)) {
                starts.put(home, checkpoint(home.resolve(STARTS)));
                ends.put(home, checkpoint(home.resolve(ENDS)));
            }
            List<Segment> segments = lists.segments(directory);
            String name = partition.topic() + " " + partition.number();
            long first = segments.isEmpty() ? 0 : segments.get(0).baseOffset();
            long start = Math.max(first, starts.get(home) == null ? first : starts.get(home).getOrDefault(name, first));
            // A log of which nothing has been said yet is new, and its daemon has not come to a checkpoint since. Without a
            // checkpoint it is somebody's copy of partitions.
            long end = ends.get(home) == null ? logEnd(segments) : ends.get(home).getOrDefault(name, start);
            if (readCommitted) {
                end = Math.min(end, scans.computeIfAbsent(partition, any -> new OpenTransactions()).firstOpen(segments, end));
            }
            found.put(partition, new Bounds(start, Math.max(start, end)));
        }
        return found;
    }

    private static long logEnd(List<Segment> segments) throws IOException {
        if (segments.isEmpty()) {
            return 0;
        }
        Segment last = segments.get(segments.size() - 1);
        long end = last.baseOffset();
        try (FileChannel file = last.openNow()) {
            if (file == null) {
                throw new LogException(last.file(".log") + ": was taken at this moment; try again");
            }
            long position = SparseIndex.startPosition(file, last, Long.MAX_VALUE);
            Headers headers = new Headers(file, last.file(".log").toString(), position);
            while (headers.next()) {
                end = Batch.lastOffset(headers.data, headers.at) + 1;
            }
        } catch (CorruptLogException error) {
            throw new LogException(last.file(".log") + ": is damaged, and there is no " + ENDS
                    + " to say where it ends; `tidelog log verify` says "
                + "more");
        }
        return end;
    }

    /** Offsets by "topic partition"; null without the file. LogException: it is damaged. */
    private static Map<String, Long> checkpoint(Path path) throws IOException {
        String text;
        try {
            text = Files.readString(path);
        } catch (NoSuchFileException error) {
            return null;
        } catch (CharacterCodingException error) {
            throw damaged(path, "not a text file");
        }
        Map<String, Long> found = new HashMap<>();
        if (text.isEmpty()) {
            return found;
        }
        if (!text.endsWith("\n")) {
            throw damaged(path, "the last line is cut off");
        }
        String[] lines = text.substring(0, text.length() - 1).split("\n", -1);
        if (!lines[0].equals("0") || lines.length < 2 || !COUNT.matcher(lines[1]).matches()) {
            throw damaged(path, "no version 0 and count in the first lines");
        }
        try {
            if (Long.parseLong(lines[1]) != lines.length - 2) {
                throw damaged(path, lines[1] + " entries were announced, " + (lines.length - 2) + " are there");
            }
            for (String line : List.of(lines).subList(2, lines.length)) {
                String[] fields = line.split(" ", -1);
                if (fields.length != 3 || fields[0].isEmpty() || !COUNT.matcher(fields[1]).matches()
                        || !COUNT.matcher(fields[2]).matches()) {
                    throw damaged(path, line + " is not `topic partition offset`");
                }
                found.put(fields[0] + " " + Integer.parseInt(fields[1]), Long.parseLong(fields[2]));
            }
        } catch (NumberFormatException error) {
            throw damaged(path, "a number is too large");
        }
        return found;
    }

    private static LogException damaged(Path path, String why) {
        return new LogException(path + ": " + why + "; without it there is no telling what may be read: start the daemon once");
    }

    /**
     * Offset of the first record with a timestamp (ms) at or above that one; empty: there is none. Markers count, as for Kafka's
     * clients.
     *
     * @param bounds as of uncommitted reads, whatever the isolation
     */
    public OptionalLong offsetForTimestamp(Partition partition, long timestamp, Bounds bounds) throws IOException {
        List<Segment> segments = lists.segments(Path.of(partition.directory()));
        for (int i = 0; i < segments.size(); i++) {
            Segment segment = segments.get(i);
            long following = i + 1 < segments.size() ? segments.get(i + 1).baseOffset() : bounds.end();
            if (following <= bounds.start() || segment.baseOffset() >= bounds.end()) {
                continue;
            }
            try (FileChannel file = segment.openNow()) {
                if (file == null) {
                    continue;
                }
                long position = Math.max(SparseIndex.startPosition(file, segment, bounds.start()),
                        SparseIndex.behind(file, segment, timestamp));
                Headers headers = new Headers(file, segment.file(".log").toString(), position);
                while (headers.next() && Batch.baseOffset(headers.data, headers.at) < bounds.end()) {
                    if (Batch.maxTimestamp(headers.data, headers.at) < timestamp
                            || Batch.lastOffset(headers.data, headers.at) < bounds.start()) {
                        continue;
                    }
                    long found = RecordReader.firstAt(file, segment, headers, timestamp, bounds.start());
                    if (found >= 0) {
                        return found < bounds.end() ? OptionalLong.of(found) : OptionalLong.empty();
                    }
                }
            }
        }
        return OptionalLong.empty();
    }

    /**
     * Splits of about the bytes that suit all ranges together; each lies within one of the ranges, which have one partition each.
     */
    public List<Split> splits(Collection<Split> ranges, SplitSize size) throws IOException {
        Map<Split, List<Segment>> parts = new LinkedHashMap<>();
        long total = 0;
        for (Split range : ranges) {
            if (range.from() < range.until()) {
                List<Segment> segments =
                        Segment.touched(lists.segments(Path.of(range.partition().directory())), range.from(), range.until());
                parts.put(range, segments);
                total += SplitPlan.estimate(segments, range);
            }
        }
        List<Split> found = new ArrayList<>();
        for (Map.Entry<Split, List<Segment>> part : parts.entrySet()) {
            found.addAll(SplitPlan.plan(part.getKey(), part.getValue(), size.bytesFor(total)));
        }
        return found;
    }

    /** Words for what has taken the offsets below the log's start: "DeleteRecords has taken", from the daemon's ledger. */
    public String whyGone(Partition partition, long start) throws IOException {
        List<Segment> segments = lists.segments(Path.of(partition.directory()));
        if (!segments.isEmpty() && segments.get(0).baseOffset() < start) {
            return "DeleteRecords has taken"; // nothing else leaves a log start inside a segment
        }
        boolean isRetention = hasRemoved(partition, "retention");
        boolean isDeleteRecords = hasRemoved(partition, "delete-records");
        return (isRetention == isDeleteRecords ? "retention or DeleteRecords" : isRetention ? "retention" : "DeleteRecords")
                + " has taken";
    }

    /**
     * True if the ledger (storage/ledger/ledger.py) has offsets that this cause took; false too where it is missing or of another
     * version.
     */
    private static boolean hasRemoved(Partition partition, String cause) throws IOException {
        String text;
        try {
            text = Files.readString(Path.of(partition.directory(), "tidelog-ledger.json"));
        } catch (NoSuchFileException | CharacterCodingException error) {
            return false;
        }
        Matcher removed = REMOVED.matcher(text);
        return removed.lookingAt() && removed.group(1).matches(".*\"" + cause + "\":[1-9].*");
    }
}
