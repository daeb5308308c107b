// A Kafka Streams application with what such applications use of a broker, exactly once. Usage:
//   Orders HOST:PORT APPLICATION_ID STATE_DIRECTORY [name=value ...]
// Until SIGTERM it reads `orders` (value "ACCOUNT AMOUNT") and the table `accounts` (key ACCOUNT, value REGION):
//
//   orders -> by account (repartition topic) -> join accounts -+-> count by account ------------------> `totals`
//                                                              +-> by region (repartition topic)
//                                                                  -> windows of 10 s (compact,delete) -> `windows`
//                                                                  -> only when they close ------------> `closed`
//
// Every update of a count is sent on (no cache), so the counts of a key are 1, 2, 3 ... n: a record that was handled
// twice or not at all shows. The key in `windows` and `closed` is "REGION@START_MS", the value "COUNT SUM".
// stdout: `MILLISECONDS STATE` at each change of state; milliseconds since the program began.

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

public final class Orders {
    private static final Duration WINDOW = Duration.ofSeconds(10);
    // Kills let one partition's records run ahead of another's; none is ever too late for its window.
    private static final Duration GRACE = Duration.ofMinutes(20);

    private Orders() {}

    static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> accounts = builder.table("accounts", Materialized.as("accounts-store"));
        KStream<String, String> joined = builder.<String, String>stream("orders")
            .map((key, value) -> KeyValue.pair(value.split(" ")[0], value.split(" ")[1]), Named.as("by-account"))
            .join(accounts, (amount, region) -> region + " " + amount);
        joined.groupByKey()
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("totals-store"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("totals");
        KTable<Windowed<String>, String> windows = joined
            .map((account, value) -> KeyValue.pair(value.split(" ")[0], value.split(" ")[1]))
            .groupByKey(Grouped.as("by-region"))
            .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
            .aggregate(
                () -> "0 0",
                (region, amount, before) -> {
                    String[] parts = before.split(" ");
                    return (Long.parseLong(parts[0]) + 1) + " " + (Long.parseLong(parts[1]) + Long.parseLong(amount));
                },
                Materialized.<String, String, WindowStore<Bytes, byte[]>>as("windows-store")
                    .withKeySerde(Serdes.String()) // else the buffer of what is held back does not know them
                    .withValueSerde(Serdes.String()));
        send(windows, "windows");
        send(windows.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("closing")),
            "closed");
        return builder.build();
    }

    private static void send(KTable<Windowed<String>, String> windows, String topic) {
        windows.toStream((key, value) -> key.key() + "@" + key.window().start())
            .to(topic, Produced.with(Serdes.String(), Serdes.String()));
    }

    public static void main(String[] arguments) throws InterruptedException {
        long began = System.nanoTime();
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        for (int index = 3; index < arguments.length; index++) {
            String[] parts = arguments[index].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        KafkaStreams streams = new KafkaStreams(topology(), settings);
        streams.setStateListener((now, before) ->
            System.out.println((System.nanoTime() - began) / 1_000_000 + " " + now));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println((System.nanoTime() - began) / 1_000_000 + " FAILED " + error);
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }
}
