package tidelog.spark;

import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.Offset;
import tidelog.log.Partition;

/**
 * A stream's offset: what comes next in each partition, as Spark's Kafka source writes it, {"orders":{"0":23,"1":345}}, and
 * beside that which topic each name was, as the source in Python does. So the two of us go on with each other's checkpoints and
 * with those of Spark's Kafka source, which takes none that has ids.
 */
final class Position extends Offset {
    private final TreeMap<String, TreeMap<Integer, Long>> offsets = new TreeMap<>();
    private final TreeMap<String, String> topicIds = new TreeMap<>();
    private Position first;
    /** As a checkpoint has it, whose spaces may be others: Spark compares offsets by their texts. */
    private final String text;

    Position(Map<Partition, Long> offsets) {
        offsets.forEach((partition, offset) ->
                this.offsets.computeIfAbsent(partition.topic(), topic -> new TreeMap<>()).put(partition.number(), offset));
        topicIds.putAll(Planner.topicIds(offsets.keySet()));
        text = made();
    }

    /** OptionException: a checkpoint holds something else. */
    Position(String json) {
        text = json;
        if (!(Json.parsed(json) instanceof Map<?, ?> topics)) {
            throw stranger(json);
        }
        topics.forEach((topic, told) -> {
            if (topic.equals(Options.TOPIC_IDS)) {
                topicIds.putAll(Objects.requireNonNullElseGet(Json.texts(told), () -> { throw stranger(json); }));
            } else if (topic.equals(Options.FIRST_OFFSETS)) {
                first = new Position(Json.text(told));
            } else if (told instanceof Map<?, ?> partitions) {
                TreeMap<Integer, Long> numbers = new TreeMap<>();
                partitions.forEach((number, offset) -> {
                    if (Json.whole(offset) == null || !number.toString().matches("[0-9]{1,9}")) {
                        throw stranger(json);
                    }
                    numbers.put(Integer.valueOf(number.toString()), Json.whole(offset));
                });
                offsets.put(topic.toString(), numbers);
            } else {
                throw stranger(json);
            }
        });
        if (first != null) {
            first.topicIds.putAll(topicIds);
        }
    }

    /** Spark's own class stands for what it has read from a checkpoint: in the progress of a batch that a restart reads again. */
    static Position of(Offset offset) {
        return offset instanceof Position position ? position : new Position(offset.json());
    }

    private static OptionException stranger(String json) {
        return new OptionException("the checkpoint's offset is " + json
                + ", which is none of this source: a query keeps its source; take a new checkpointLocation");
    }

    /** Where the batch begins that ends here, of a query's first one, if the source in Python has planned it; else null. */
    Position first() {
        return first;
    }

    /** Of a partition; null for one that is new. */
    Long of(Partition partition) {
        return offsets.getOrDefault(partition.topic(), new TreeMap<>()).get(partition.number());
    }

    Map<String, ? extends Map<Integer, Long>> offsets() {
        return offsets;
    }

    Map<String, String> topicIds() {
        return topicIds;
    }

    /** True for the same place, however it was written. */
    boolean isAt(Position other) {
        return offsets.equals(other.offsets) && topicIds.equals(other.topicIds);
    }

    @Override
    public String json() {
        return text;
    }

    /** In order of topics and partitions. */
    private String made() {
        TreeMap<String, Object> found = new TreeMap<>(offsets);
        StringBuilder json = new StringBuilder(Json.text(found));
        if (!topicIds.isEmpty()) { // behind the topics, as Python has them
            json.setLength(json.length() - 1);
            json.append(found.isEmpty() ? ""
                    : ",").append(Json.text(Options.TOPIC_IDS)).append(':').append(Json.text(topicIds)).append('}');
        }
        return json.toString();
    }
}
