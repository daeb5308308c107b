package tidelog.log;

import java.io.Serializable;

/**
 * A partition of a look at log directories.
 *
 * @param directory its own directory, `log.dir/topic-number`
 * @param topicId as Kafka spells it; empty where {@code partition.metadata} is missing. A topic with another id is another topic.
 */
public record Partition(String topic, int number, String directory, String topicId) implements Serializable {
    @Override
    public String toString() {
        return topic + "-" + number;
    }
}
