package tidelog.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import tidelog.log.Partition;

/**
 * The options of {@code format("tidelog-files")}: those of {@code format("tidelog")} (pipeline/options.py), as far as they are
 * for plain records of files. The others are refused with a sentence that names the source in Python. Names are read without
 * regard to case, as Spark does.
 *
 * @param assigned topic to partitions, in order; null without the option
 * @param starting null when nothing was said: a batch begins with the earliest, a stream with the latest
 * @param startingIds ids of topics in startingOffsets, as a stream's offset has them: such a topic is no other of that name
 * @param columns names as the user gave them; none given: all
 * @param splitBytes 0 when nothing was said: as it suits the cluster
 * @param mostRecords of a partition of Spark's; 0: no limit. So have the offsets of a trigger
 */
record Options(
        List<String> paths, List<String> topics, String pattern, Map<String, List<Integer>> assigned,
        Bound starting, Map<String, String> startingIds, Bound ending, boolean latestIfTooYoung, boolean failOnDataLoss,
        boolean includeHeaders, List<String> columns, int minPartitions, long mostRecords, long mostOffsets, long leastOffsets,
        long delayMs, boolean readCommitted, long splitBytes, boolean checkCrcs, boolean skipCorrupt) implements Serializable {

    static final long EARLIEST = -2;
    static final long LATEST = -1;
    /** Beside the topics of a stream's offset: topic to its id. No topic can have this name. */
    static final String TOPIC_IDS = "topic ids";
    /** Beside them too, in the end of a first batch of the source in Python: as the topics, where that batch begins. */
    static final String FIRST_OFFSETS = "first offsets";

    private static final List<String> KNOWN = List.of(
            "path", "paths", "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
            "endingTimestamp",
            "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss",
            "includeHeaders",
            "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
            "isolation",
            "kafka.isolation.level", "kafka.group.id", "kafka.check.crcs", "columns", "view", "splitBytes", "checkCrcs",
            "corruptBatches",
            "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs");
    /** Of the source in Python alone; so is all that begins with kafka. */
    private static final Set<String> OTHERS = Set.of(
            "bootstrap.servers", "keysstayinpartition", "latestmemorybytes", "decode", "decodeschema", "decodeschemafile",
            "decodemessage");
    private static final List<String> OTHER_PREFIXES = List.of("kafka.", "schema.registry.");
    private static final Pattern DELAY = Pattern.compile("(\\d{1,15})\\s*(us|ms|s|sec|second|m|min|minute|h|hour|d|day)?s?");

    /** Where a read begins or ends: an offset (or EARLIEST, LATEST), or a timestamp in ms, of all partitions or of each. */
    record Bound(boolean isTime, Long forAll, Map<String, Map<Integer, Long>> each, String name) implements Serializable {
        /** OptionException: it must say something of every partition that is read. */
        long of(Partition partition) {
            Long found = forAll != null ? forAll : each.getOrDefault(partition.topic(), Map.of()).get(partition.number());
            if (found == null) {
                throw new OptionException(name + " says nothing of " + partition + "; it must of every partition that is read");
            }
            return found;
        }
    }

    /**
     * The options that a user gave. OptionException: one is unknown (with the nearest that there is), another source's, or makes
     * no sense.
     */
    static Options parse(Map<String, String> given) {
        Map<String, String> names = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        KNOWN.forEach(name -> names.put(name, name));
        Map<String, String> found = new HashMap<>();
        for (Map.Entry<String, String> option : given.entrySet()) {
            if (option.getValue() == null) { // PySpark's option(name, None)
                continue;
            }
            String name = option.getKey();
            String lower = name.toLowerCase(Locale.ROOT);
            if (names.containsKey(name)) {
                found.put(names.get(name), option.getValue().strip());
            } else if (OTHERS.contains(lower) || OTHER_PREFIXES.stream().anyMatch(lower::startsWith)) {
                throw elsewhere(name);
            } else {
                throw new OptionException("unknown option " + name + hint(name, KNOWN));
            }
        }
        if (!choice(found, "view", "records", "latest", "changelog").equals("records")) {
            throw elsewhere("view=" + found.get("view"));
        }
        List<String> paths = new ArrayList<>(listedPaths(found.getOrDefault("paths", "[]")));
        paths.addAll(parts(found.getOrDefault("path", "")));
        if (paths.isEmpty()) {
            throw new OptionException("set path to a daemon's log.dirs; brokers are read by format(\"tidelog\")");
        }
        List<String> ways = List.of("subscribe", "subscribePattern", "assign").stream().filter(found::containsKey).toList();
        if (ways.size() != 1) {
            String said = ways.isEmpty() ? "none" : String.join(" and ", ways);
            throw new OptionException("set one of subscribe, subscribePattern and assign, not " + said);
        }
        try {
            Pattern.compile(found.getOrDefault("subscribePattern", ""));
        } catch (PatternSyntaxException error) {
            throw new OptionException("subscribePattern: " + error.getMessage());
        }
        List<String> topics = List.copyOf(new LinkedHashSet<>(parts(found.getOrDefault("subscribe", ""))));
        if (found.containsKey("subscribe") && topics.isEmpty()) {
            throw new OptionException("subscribe names no topic");
        }
        boolean checkCrcs = bool(found, "checkCrcs", bool(found, "kafka.check.crcs", true));
        return new Options(
                paths, topics, found.get("subscribePattern"), found.containsKey("assign") ? assigned(found.get("assign")) : null,
                bound(found, "starting"), topicIds(found.getOrDefault("startingOffsets", "earliest")), bound(found, "ending"),
                choice(found, "startingOffsetsByTimestampStrategy", "error", "latest").equals("latest"),
                bool(found, "failOnDataLoss", true),
                bool(found, "includeHeaders", false), columns(found.get("columns")),
                (int) Math.min(number(found, "minPartitions", 0), Integer.MAX_VALUE), number(found, "maxRecordsPerPartition", 1),
                number(found, "maxOffsetsPerTrigger", 1), number(found, "minOffsetsPerTrigger", 1),
                delay(found.getOrDefault("maxTriggerDelay", "15m")),
                isCommitted(found), number(found, "splitBytes", 1), checkCrcs,
                choice(found, "corruptBatches", "fail", "skip").equals("skip"));
    }

    /** OptionException: what has been asked for is no batch. */
    void checkBatch() {
        checkNothing(starting, "startingOffsets", "latest", LATEST);
        checkNothing(ending, "endingOffsets", "earliest", EARLIEST);
        if (mostOffsets > 0 || leastOffsets > 0) {
            throw new OptionException((mostOffsets > 0 ? "max" : "min")
                    + "OffsetsPerTrigger is for streams; a batch has endingOffsets");
        }
    }

    /** OptionException: what has been asked for is no stream. */
    void checkStream() {
        if (ending != null) {
            throw new OptionException(
                    "a stream has no endingOffsets and no endingTimestamp; use trigger(availableNow=True), or spark.read");
        }
        if (mostOffsets > 0 && leastOffsets > mostOffsets) {
            throw new OptionException("minOffsetsPerTrigger is " + leastOffsets + ", which is more than maxOffsetsPerTrigger, "
                    + mostOffsets);
        }
    }

    private static void checkNothing(Bound bound, String name, String word, long nothing) {
        if (bound == null || bound.isTime) {
            return;
        }
        if (bound.forAll != null && bound.forAll == nothing) {
            throw new OptionException(name + " can't be " + word + ": nothing would be read");
        }
        bound.each.forEach((topic, partitions) -> partitions.forEach((partition, offset) -> {
            if (offset == nothing) {
                throw new OptionException(name + ": " + offset + " for " + topic + "-" + partition
                        + " makes no sense: nothing would be read");
            }
        }));
    }

    private static OptionException elsewhere(String what) {
        return new OptionException(what
                + " is not for format(\"tidelog-files\"), which reads the plain records of files; format(\"tidelog\") has it");
    }

    /** The nearest of the names, or all. */
    static String hint(String name, List<String> known) {
        String lower = name.toLowerCase(Locale.ROOT);
        String nearest = null;
        int least = Math.max(1, lower.length() * 2 / 5) + 1;
        for (String each : known) {
            int distance = distance(lower, each.toLowerCase(Locale.ROOT));
            if (distance < least) {
                least = distance;
                nearest = each;
            }
        }
        return nearest == null ? "; there are " + String.join(", ", known) : "; did you mean " + nearest + "?";
    }

    /** Letters to put in, leave out or change. */
    private static int distance(String one, String other) {
        int[] row = new int[other.length() + 1];
        Arrays.setAll(row, at -> at);
        for (int i = 1; i <= one.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= other.length(); j++) {
                int changed = diagonal + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.min(changed, 1 + Math.min(row[j], row[j - 1]));
            }
        }
        return row[other.length()];
    }

    private static List<String> parts(String text) {
        return Arrays.stream(text.split(",")).map(String::strip).filter(part -> !part.isEmpty()).toList();
    }

    /** Paths of {@code load([...])}, which Spark turns into a JSON list. */
    private static List<String> listedPaths(String text) {
        if (Json.parsed(text) instanceof List<?> paths && paths.stream().allMatch(String.class::isInstance)) {
            return paths.stream().map(String.class::cast).toList();
        }
        throw new OptionException("paths is no JSON list of directories; give them to load(), or as path, comma-separated");
    }

    private static long number(Map<String, String> found, String name, long least) {
        if (!found.containsKey(name)) {
            return 0;
        }
        long value;
        try {
            value = Long.parseLong(found.get(name));
        } catch (NumberFormatException error) {
            throw new OptionException(name + " is '" + found.get(name) + "', which is no number");
        }
        if (value < least) {
            throw new OptionException(name + " is " + value + "; it can be " + least + " or more");
        }
        return value;
    }

    private static boolean bool(Map<String, String> found, String name, boolean otherwise) {
        String text = found.getOrDefault(name, String.valueOf(otherwise)).toLowerCase(Locale.ROOT);
        if (!text.equals("true") && !text.equals("false")) {
            throw new OptionException(name + " is '" + text + "'; it can be true or false");
        }
        return text.equals("true");
    }

    /** The first choice is the default. */
    private static String choice(Map<String, String> found, String name, String... choices) {
        String text = found.getOrDefault(name, choices[0]).toLowerCase(Locale.ROOT);
        if (!List.of(choices).contains(text)) {
            throw new OptionException(name + " is '" + text + "'; it can be " + String.join(" or ", choices));
        }
        return text;
    }

    private static boolean isCommitted(Map<String, String> found) {
        Set<String> said = new LinkedHashSet<>();
        for (String name : List.of("isolation", "kafka.isolation.level")) {
            if (found.containsKey(name)) {
                said.add(choice(found, name, "read_uncommitted", "read_committed"));
            }
        }
        if (said.size() > 1) {
            throw new OptionException("isolation and kafka.isolation.level say different things");
        }
        return said.contains("read_committed");
    }

    private static List<String> columns(String text) {
        if (text == null) {
            return List.of();
        }
        List<String> names = parts(text);
        if (names.isEmpty()) {
            throw new OptionException("columns names no column; leave it out for all");
        }
        Set<String> seen = new LinkedHashSet<>();
        for (String name : names) {
            if (!seen.add(name)) {
                throw new OptionException("columns names " + name + " more than once");
            }
        }
        return names;
    }

    /** {@code 15m}, {@code 90 s}, {@code 100ms}: in ms. */
    private static long delay(String text) {
        Matcher found = DELAY.matcher(text.toLowerCase(Locale.ROOT));
        if (!found.matches()) {
            throw new OptionException("maxTriggerDelay is '" + text + "'; it can be 15m, 90s or 500ms");
        }
        String unit = found.group(2) == null ? "ms" : found.group(2);
        long ms = unit.endsWith("s") && unit.length() == 2 ? 1 : unit.startsWith("s") ? 1000 : unit.startsWith("m") ? 60_000
                : unit.startsWith("h") ? 3_600_000 : 86_400_000;
        long count = Long.parseLong(found.group(1)) / (unit.equals("us") ? 1000 : 1);
        return count > Long.MAX_VALUE / ms ? Long.MAX_VALUE : count * ms;
    }

    /** One time for all partitions comes before those for each, and times before offsets, as with Spark's source. */
    private static Bound bound(Map<String, String> found, String which) {
        String forAll = which + "Timestamp";
        String each = which + "OffsetsByTimestamp";
        String offsets = which + "Offsets";
        if (found.containsKey(forAll)) {
            return new Bound(true, number(found, forAll, 0), Map.of(), forAll);
        }
        if (found.containsKey(each)) {
            return new Bound(true, null, numbers(each, found.get(each), "a timestamp in ms", 0), each);
        }
        if (!found.containsKey(offsets)) {
            return null;
        }
        return switch (found.get(offsets).toLowerCase(Locale.ROOT)) {
            case "earliest" -> new Bound(false, EARLIEST, Map.of(), offsets);
            case "latest" -> new Bound(false, LATEST, Map.of(), offsets);
            default -> new Bound(false, null, numbers(offsets, found.get(offsets), "an offset", EARLIEST), offsets);
        };
    }

    private static Map<String, Map<Integer, Long>> numbers(String name, String text, String what, long least) {
        Map<String, Map<Integer, Long>> found = new LinkedHashMap<>();
        Json.object(name, text).forEach((topic, partitions) -> {
            if (Set.of(TOPIC_IDS, FIRST_OFFSETS).contains(topic) && name.equals("startingOffsets")) {
                return;
            }
            if (!(partitions instanceof Map<?, ?> numbers)) {
                throw new OptionException(name + ": " + topic + " has no object of partitions, each with " + what);
            }
            Map<Integer, Long> offsets = new TreeMap<>();
            numbers.forEach((number, value) -> {
                Long offset = Json.whole(value);
                if (!number.toString().matches("[0-9]{1,9}") || offset == null || offset < least) {
                    throw new OptionException(name + ": " + topic + " has '" + number + "': " + value
                            + "; it takes a partition and " + what);
                }
                offsets.put(Integer.valueOf(number.toString()), offset);
            });
            found.put(topic, offsets);
        });
        return found;
    }

    /** Ids in startingOffsets, where that is a stream's offset. */
    private static Map<String, String> topicIds(String text) {
        if (text.equalsIgnoreCase("earliest") || text.equalsIgnoreCase("latest")) {
            return Map.of();
        }
        Map<String, String> found = Json.texts(Json.object("startingOffsets", text).getOrDefault(TOPIC_IDS, Map.of()));
        if (found == null) {
            throw new OptionException("startingOffsets: '" + TOPIC_IDS + "' has no id for each topic");
        }
        return found;
    }

    private static Map<String, List<Integer>> assigned(String text) {
        Map<String, List<Integer>> found = new LinkedHashMap<>();
        Json.object("assign", text).forEach((topic, partitions) -> {
            Set<Integer> numbers = new LinkedHashSet<>();
            for (Object number : partitions instanceof List<?> list ? list : List.of("none")) {
                Long value = Json.whole(number);
                if (value == null || value < 0 || value > Integer.MAX_VALUE) {
                    throw new OptionException("assign: " + topic + " has no list of partition numbers");
                }
                numbers.add(value.intValue());
            }
            found.put(topic, List.copyOf(numbers));
        });
        return found;
    }
}
