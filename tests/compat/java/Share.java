// Apache Kafka's own share consumer, led by the lines of stdin. Usage: Share HOST:PORT GROUP TOPIC implicit|explicit
//   poll MS          polls until something comes, MS at most: `REC partition offset deliveries value` each
//   ack OFFSET TYPE  of a record of the last poll: ACCEPT, RELEASE, REJECT or RENEW
//   commit           commitSync: `ERR partition error` for each that failed
//   close            ends the session in order, and the program
// Each is answered with a line `OK`, or `FAIL why`.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public final class Share {
    private static final Map<Long, ConsumerRecord<String, String>> LAST = new HashMap<>();

    private Share() {}

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("share.acknowledgement.mode", args[3]);
        settings.put("reconnect.backoff.max.ms", "200");
        StringDeserializer text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(args[2]));
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null && !line.equals("close"); line = lines.readLine()) {
                try {
                    obey(consumer, line.split(" "));
                    say("OK");
                } catch (KafkaException | IllegalStateException error) {
                    say("FAIL " + error);
                }
            }
        }
        say("OK");
    }

    private static void obey(KafkaShareConsumer<String, String> consumer, String[] words) {
        switch (words[0]) {
            case "poll" -> poll(consumer, Long.parseLong(words[1]));
            case "ack" -> consumer.acknowledge(LAST.get(Long.parseLong(words[1])), AcknowledgeType.valueOf(words[2]));
            case "commit" -> {
                Map<TopicIdPartition, Optional<KafkaException>> outcome = consumer.commitSync();
                outcome.forEach((where, error) ->
                    error.ifPresent(what -> say("ERR " + where.partition() + " " + what.getClass().getSimpleName())));
            }
            default -> throw new IllegalStateException("no such command: " + words[0]);
        }
    }

    private static void poll(KafkaShareConsumer<String, String> consumer, long milliseconds) {
        long end = System.nanoTime() + milliseconds * 1_000_000;
        while (System.nanoTime() < end) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            LAST.clear();
            for (ConsumerRecord<String, String> one : records) {
                LAST.put(one.offset(), one);
                say("REC " + one.partition() + " " + one.offset() + " " + one.deliveryCount().orElse((short) 0) + " " + one.value());
            }
            if (!records.isEmpty()) return;
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
