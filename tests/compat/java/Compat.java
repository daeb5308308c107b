// Apache Kafka's own Java clients against one broker. Usage:
//   Compat HOST:PORT cases             runs every case below; prints `PASS name` or `FAIL name: why`, exits 1 on a FAIL
//   Compat HOST:PORT write TOPIC       produces the records that stdin names
//   Compat HOST:PORT read TOPIC COUNT  prints COUNT messages from the start of all partitions
// COMPAT_PROPERTIES names a file of settings for all clients.
// The text form of records is that of tests/support/clients/base.py.

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Compat {
    private static final int TIMEOUT_S = 30;
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private final String bootstrap;
    private final Properties common = new Properties();

    private interface Case {
        void run() throws Exception;
    }

    private Compat(String bootstrap) throws IOException {
        this.bootstrap = bootstrap;
        String file = System.getenv("COMPAT_PROPERTIES");
        if (file != null) try (Reader in = Files.newBufferedReader(Path.of(file))) { common.load(in); }
    }

    public static void main(String[] args) throws Exception {
        Compat compat = new Compat(args[0]);
        switch (args[1]) {
            case "cases" -> System.exit(compat.runCases(Arrays.asList(args).subList(2, args.length)) ? 0 : 1);
            case "write" -> compat.write(args[2]);
            case "read" -> compat.read(args[2], Integer.parseInt(args[3]));
            default -> throw new IllegalArgumentException("cases, write or read, not " + args[1]);
        }
    }

    // -- as a driver --------------------------------------------------------------------------------------------------

    private void write(String topic) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split("\t", -1);
            KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(f[1], codec -> producer("compression.type", codec));
            Long timestamp = f[2].equals("-") ? null : Long.valueOf(f[2]);
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, Integer.valueOf(f[0]), timestamp, bytes(f[3]), bytes(f[4]));
            for (String header : f[5].isEmpty() ? new String[0] : f[5].split(",")) {
                String[] pair = header.split("=", -1);
                record.headers().add(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1]));
            }
            sent.add(producer.send(record));
        }
        for (Future<RecordMetadata> future : sent) future.get(TIMEOUT_S, TimeUnit.SECONDS);
        producers.values().forEach(KafkaProducer::close);
    }

    private void read(String topic, int count) throws Exception {
        PrintWriter out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));
        for (ConsumerRecord<byte[], byte[]> r : readAll(topic, count)) {
            StringBuilder headers = new StringBuilder();
            for (Header h : r.headers()) {
                if (headers.length() > 0) headers.append(',');
                headers.append(hex(h.key().getBytes(StandardCharsets.UTF_8))).append('=').append(hex(h.value()));
            }
            out.printf("%d\t%d\t%d\t%s\t%s\t%s\n", r.partition(), r.offset(), r.timestamp(), hex(r.key()), hex(r.value()), headers);
        }
        out.flush();
    }

    private static String hex(byte[] value) {
        return value == null ? "-" : HexFormat.of().formatHex(value);
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : HexFormat.of().parseHex(text);
    }

    // -- the cases ----------------------------------------------------------------------------------------------------

    /** All, or those that are named. */
    private boolean runCases(List<String> only) {
        Map<String, Case> cases = new LinkedHashMap<>();
        for (String codec : CODECS) cases.put("roundtrip-" + codec, () -> roundtrip(codec));
        cases.put("idempotence", this::idempotence);
        cases.put("group", () -> group("classic"));
        cases.put("group-consumer-protocol", () -> group("consumer"));
        cases.put("rebalance-eager", () -> rebalance("org.apache.kafka.clients.consumer.RangeAssignor"));
        cases.put("rebalance-cooperative", () -> rebalance("org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        cases.put("static-member", this::staticMember);
        cases.put("seek-by-time", this::seekByTime);
        cases.put("large-message", this::largeMessage);
        cases.put("too-large-message", this::tooLargeMessage);
        cases.put("many-partitions", this::manyPartitions);
        cases.put("admin", this::administration);
        cases.put("transactions", this::transactions);
        cases.put("exactly-once", this::exactlyOnce);
        cases.put("fencing", this::fencing);
        cases.put("hanging-transaction", this::hangingTransaction);
        if (!only.isEmpty()) cases.keySet().retainAll(only);
        boolean passed = true;
        for (Map.Entry<String, Case> c : cases.entrySet()) {
            long began = System.nanoTime();
            try {
                c.getValue().run();
                System.out.printf("PASS %s %.1f s%n", c.getKey(), (System.nanoTime() - began) / 1e9);
            } catch (Throwable e) {
                passed = false;
                String why = String.valueOf(e).replace('\n', ' ');
                StackTraceElement at = Arrays.stream(e.getStackTrace()).filter(s -> s.getClassName().startsWith("Compat")).findFirst().orElse(null);
                System.out.printf("FAIL %s: %s at %s%n", c.getKey(), why, at);
            }
            System.out.flush();
        }
        return passed;
    }

    private void roundtrip(String codec) throws Exception {
        String topic = topic("java-roundtrip", 1);
        List<byte[]> keys = new ArrayList<>();
        List<byte[]> values = new ArrayList<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Random random = new Random(7);
        try (KafkaProducer<byte[], byte[]> producer = producer("compression.type", codec)) {
            for (int i = 0; i < 200; i++) {
                byte[] noise = new byte[random.nextInt(500)];
                random.nextBytes(noise);
                byte[][] someKeys = {null, {}, "key".getBytes(StandardCharsets.UTF_8), noise};
                byte[][] someValues = {noise, "x".repeat(2000).getBytes(StandardCharsets.UTF_8), {}, null, noise};
                keys.add(someKeys[i % 4]);
                values.add(someValues[i % 5]);
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, 1_600_000_000_000L + i, keys.get(i), values.get(i));
                if (i % 2 == 0) record.headers().add("h", new byte[] {(byte) i}).add("h", new byte[0]).add("größe", null);
                sent.add(producer.send(record));
            }
            for (int i = 0; i < sent.size(); i++) equal((long) i, sent.get(i).get(TIMEOUT_S, TimeUnit.SECONDS).offset(), "offset");
        }
        List<ConsumerRecord<byte[], byte[]>> read = readAll(topic, 200);
        equal(200, read.size(), "records");
        for (int i = 0; i < 200; i++) {
            ConsumerRecord<byte[], byte[]> r = read.get(i);
            equal((long) i, r.offset(), "offset");
            equal(1_600_000_000_000L + i, r.timestamp(), "timestamp");
            check(Arrays.equals(keys.get(i), r.key()), "key of " + i);
            check(Arrays.equals(values.get(i), r.value()), "value of " + i);
            Header[] headers = r.headers().toArray();
            equal(i % 2 == 0 ? 3 : 0, headers.length, "headers");
            if (i % 2 == 0) {
                check(Arrays.equals(new byte[] {(byte) i}, headers[0].value()), "first header of " + i);
                check(headers[1].key().equals("h") && headers[1].value().length == 0, "second header of " + i);
                check(headers[2].key().equals("größe") && headers[2].value() == null, "third header of " + i);
            }
        }
    }

    /** Many small batches in flight at once come back once each and in order. */
    private void idempotence() throws Exception {
        String topic = topic("java-idempotence", 2);
        int count = 3000;
        try (KafkaProducer<byte[], byte[]> producer =
                producer("enable.idempotence", "true", "max.in.flight.requests.per.connection", "5", "batch.size", "300", "linger.ms", "0")) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) sent.add(producer.send(new ProducerRecord<>(topic, i % 2, null, text(String.valueOf(i)))));
            for (Future<RecordMetadata> future : sent) future.get(TIMEOUT_S, TimeUnit.SECONDS);
        }
        Map<Integer, List<String>> read = new TreeMap<>();
        for (ConsumerRecord<byte[], byte[]> r : readAll(topic, count)) read.computeIfAbsent(r.partition(), p -> new ArrayList<>()).add(text(r.value()));
        for (int p = 0; p < 2; p++) {
            List<String> expected = new ArrayList<>();
            for (int i = p; i < count; i += 2) expected.add(String.valueOf(i));
            equal(expected, read.get(p), "partition " + p);
        }
    }

    /** A group reads everything, commits, and a later member goes on from there. */
    private void group(String protocol) throws Exception {
        String topic = topic("java-group", 3);
        String group = name("java-group");
        produceNumbers(topic, 3, 0, 300);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", group, "group.protocol", protocol)) {
            consumer.subscribe(List.of(topic));
            equal(300, poll(consumer, 300).size(), "records of the first member");
            consumer.commitSync(Duration.ofSeconds(TIMEOUT_S));
        }
        produceNumbers(topic, 3, 300, 330);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", group, "group.protocol", protocol)) {
            consumer.subscribe(List.of(topic));
            Set<String> values = new HashSet<>();
            for (ConsumerRecord<byte[], byte[]> r : poll(consumer, 30)) values.add(text(r.value()));
            equal(30, values.size(), "records of the second member");
            for (int i = 300; i < 330; i++) check(values.contains(String.valueOf(i)), "record " + i);
        }
        try (Admin admin = admin()) {
            Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(TIMEOUT_S, TimeUnit.SECONDS);
            for (int p = 0; p < 3; p++) equal(100L, committed.get(new TopicPartition(topic, p)).offset(), "committed offset");
        }
    }

    /** A second member joins and gets half, leaves and gives it back. */
    private void rebalance(String assignor) throws Exception {
        String topic = topic("java-rebalance", 4);
        String[] settings = {"group.id", name("java-rebalance"), "partition.assignment.strategy", assignor};
        produceNumbers(topic, 4, 0, 400);
        Set<String> seen = new HashSet<>();
        try (KafkaConsumer<byte[], byte[]> first = consumer(settings)) {
            first.subscribe(List.of(topic));
            eventually(() -> pollOnce(first, seen) && first.assignment().size() == 4, "the first member has all");
            try (KafkaConsumer<byte[], byte[]> second = consumer(settings)) {
                second.subscribe(List.of(topic));
                eventually(() -> pollOnce(first, seen) && pollOnce(second, seen) && first.assignment().size() == 2 && second.assignment().size() == 2, "both have half");
                Set<TopicPartition> both = new HashSet<>(first.assignment());
                both.addAll(second.assignment());
                equal(4, both.size(), "partitions of both");
            }
            eventually(() -> pollOnce(first, seen) && first.assignment().size() == 4, "the first member has all again");
            eventually(() -> pollOnce(first, seen) && seen.size() == 400, "every record is seen");
        }
    }

    /** A static member that comes back within its session gets its partitions again and nobody else is disturbed. */
    private void staticMember() throws Exception {
        String topic = topic("java-static", 2);
        String group = name("java-static");
        Set<String> seen = new HashSet<>();
        int[] revoked = {0};
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                revoked[0]++;
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
        };
        try (KafkaConsumer<byte[], byte[]> first = consumer("group.id", group, "group.instance.id", "one")) {
            first.subscribe(List.of(topic), listener);
            Set<TopicPartition> owned;
            try (KafkaConsumer<byte[], byte[]> second = consumer("group.id", group, "group.instance.id", "two")) {
                second.subscribe(List.of(topic));
                eventually(() -> pollOnce(first, seen) && pollOnce(second, seen) && first.assignment().size() == 1 && second.assignment().size() == 1, "one partition each");
                owned = new HashSet<>(second.assignment());
            }
            int before = revoked[0];
            try (KafkaConsumer<byte[], byte[]> second = consumer("group.id", group, "group.instance.id", "two")) {
                second.subscribe(List.of(topic));
                eventually(() -> pollOnce(first, seen) && pollOnce(second, seen) && second.assignment().size() == 1, "the static member is back");
                equal(owned, second.assignment(), "its partition");
            }
            equal(before, revoked[0], "revocations at the other member");
        }
    }

    private void seekByTime() throws Exception {
        String topic = topic("java-time", 1);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (int i = 0; i < 100; i++) producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + 1000L * i, null, text(String.valueOf(i))));
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(partition));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, 1_700_000_041_500L)).get(partition);
            equal(42L, found.offset(), "offset by time");
            equal(1_700_000_042_000L, found.timestamp(), "time of that offset");
            equal(null, consumer.offsetsForTimes(Map.of(partition, 1_800_000_000_000L)).get(partition), "offset of a time to come");
            equal(0L, consumer.beginningOffsets(List.of(partition)).get(partition), "beginning");
            equal(100L, consumer.endOffsets(List.of(partition)).get(partition), "end");
            consumer.seek(partition, found.offset());
            equal("42", text(poll(consumer, 1).get(0).value()), "record after the seek");
        }
        try (Admin admin = admin()) {
            ListOffsetsResultInfo newest = admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get(TIMEOUT_S, TimeUnit.SECONDS);
            equal(99L, newest.offset(), "offset of the largest timestamp");
        }
    }

    private void largeMessage() throws Exception {
        String topic = topic("java-large", 1);
        byte[] value = new byte[900_000];
        new Random(1).nextBytes(value);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get(TIMEOUT_S, TimeUnit.SECONDS);
        }
        check(Arrays.equals(value, readAll(topic, 1).get(0).value()), "the large value");
    }

    private void tooLargeMessage() throws Exception {
        String topic = topic("java-too-large", 1);
        try (KafkaProducer<byte[], byte[]> producer = producer("max.request.size", "5000000")) {
            fails(RecordTooLargeException.class, producer.send(new ProducerRecord<>(topic, 0, null, new byte[1_200_000])));
            equal(0L, producer.send(new ProducerRecord<>(topic, 0, null, new byte[1000])).get(TIMEOUT_S, TimeUnit.SECONDS).offset(), "offset of what fits");
        }
    }

    private void manyPartitions() throws Exception {
        String topic = topic("java-many", 200);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 1000; i++) sent.add(producer.send(new ProducerRecord<>(topic, i % 200, null, text(String.valueOf(i)))));
            for (Future<RecordMetadata> future : sent) future.get(TIMEOUT_S, TimeUnit.SECONDS);
        }
        Map<Integer, Integer> perPartition = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> r : readAll(topic, 1000)) perPartition.merge(r.partition(), 1, Integer::sum);
        equal(200, perPartition.size(), "partitions with records");
        check(perPartition.values().stream().allMatch(n -> n == 5), "five records each");
        try (Admin admin = admin()) {
            admin.deleteTopics(List.of(topic)).all().get(TIMEOUT_S, TimeUnit.SECONDS);
        }
    }

    private void administration() throws Exception {
        String topic = name("java-admin");
        try (Admin admin = admin()) {
            NewTopic wanted = new NewTopic(topic, Optional.of(2), Optional.empty()).configs(Map.of("retention.ms", "123456789"));
            admin.createTopics(List.of(wanted)).all().get(TIMEOUT_S, TimeUnit.SECONDS);
            fails(TopicExistsException.class, admin.createTopics(List.of(wanted)).all());
            fails(InvalidConfigurationException.class, admin.createTopics(List.of(new NewTopic(name("java-bad"), 1, (short) 1).configs(Map.of("retention.ms", "-7")))).all());
            eventually(() -> listed(admin, topic), "the topic is listed");
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Config config = admin.describeConfigs(List.of(resource)).all().get(TIMEOUT_S, TimeUnit.SECONDS).get(resource);
            equal("123456789", config.get("retention.ms").value(), "retention.ms");
            equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config.get("retention.ms").source(), "its source");
            equal("delete", config.get("cleanup.policy").value(), "cleanup.policy");
            check(config.get("cleanup.policy").isDefault(), "cleanup.policy is the default");
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get(TIMEOUT_S, TimeUnit.SECONDS);
            eventually(() -> partitions(admin, topic) == 5, "five partitions");
            equal(1, admin.describeCluster().nodes().get(TIMEOUT_S, TimeUnit.SECONDS).size(), "nodes");
            check(admin.describeCluster().clusterId().get(TIMEOUT_S, TimeUnit.SECONDS).length() > 0, "cluster id");
            admin.deleteTopics(List.of(topic)).all().get(TIMEOUT_S, TimeUnit.SECONDS);
            fails(UnknownTopicOrPartitionException.class, admin.deleteTopics(List.of(topic)).all());
            eventually(() -> !listed(admin, topic), "the topic is gone");
        }
    }

    // -- tools --------------------------------------------------------------------------------------------------------

    private static String name(String stem) {
        return stem + "-" + UUID.randomUUID().toString().substring(0, 8);
    }

    private String topic(String stem, int partitions) throws Exception {
        String topic = name(stem);
        try (Admin admin = admin()) {
            // The cases write records that are years old, which retention would rightly delete.
            NewTopic wanted = new NewTopic(topic, partitions, (short) 1).configs(Map.of("retention.ms", "-1"));
            admin.createTopics(List.of(wanted)).all().get(TIMEOUT_S, TimeUnit.SECONDS);
        }
        return topic;
    }

    private void produceNumbers(String topic, int partitions, int from, int to) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (int i = from; i < to; i++) producer.send(new ProducerRecord<>(topic, i % partitions, null, text(String.valueOf(i))));
        }
    }

    // -- transactions: this client uses version 2 of them (KIP-890) when the broker finalises it -----------------------

    private void transactions() throws Exception {
        String topic = topic("java-transactions", 2);
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", topic)) {
            producer.initTransactions();
            for (int i = 0; i < 20; i++) {
                producer.beginTransaction();
                for (int j = 0; j < 4; j++) producer.send(record(topic, j % 2, i + " " + j));
                producer.flush();  // or what has not been sent is not, when it is aborted
                if (i % 3 == 1) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        List<String> seen = texts(readAll(topic, 4 * 13, "isolation.level", "read_committed"));
        for (int i = 0; i < 20; i++)
            for (int j = 0; j < 4; j++) equal(i % 3 != 1, seen.remove(i + " " + j), "transaction " + i);
        equal(0, seen.size(), "left over");
        equal(80, readAll(topic, 80).size(), "records of all transactions");
    }

    /** Consume, transform, produce: offsets and records together, over an abort and a second consumer. */
    private void exactlyOnce() throws Exception {
        String from = topic("java-eos-in", 1);
        String to = topic("java-eos-out", 1);
        try (KafkaProducer<byte[], byte[]> plain = producer()) {
            for (int i = 0; i < 50; i++) plain.send(record(from, 0, "v" + i));
        }
        TopicPartition in = new TopicPartition(from, 0);
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", to)) {
            producer.initTransactions();
            int handled = 0;
            for (int round = 0; handled < 50; round++) {
                try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", to, "max.poll.records", "20",
                        "auto.offset.reset", "earliest", "isolation.level", "read_committed")) {
                    consumer.subscribe(List.of(from));
                    List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>();
                    eventually(() -> {
                        consumer.poll(Duration.ofMillis(200)).forEach(batch::add);
                        return !batch.isEmpty();
                    }, "records to handle");
                    producer.beginTransaction();
                    for (ConsumerRecord<byte[], byte[]> r : batch) producer.send(new ProducerRecord<>(to, 0, r.key(), r.value()));
                    long next = batch.get(batch.size() - 1).offset() + 1;
                    producer.sendOffsetsToTransaction(Map.of(in, new OffsetAndMetadata(next)), consumer.groupMetadata());
                    if (round % 2 == 0) {
                        producer.abortTransaction();
                    } else {
                        producer.commitTransaction();
                        handled += batch.size();
                        equal(next, consumer.committed(Set.of(in)).get(in).offset(), "committed offset");
                    }
                }
            }
        }
        List<String> seen = texts(readAll(to, 50, "isolation.level", "read_committed"));
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < 50; i++) expected.add("v" + i);
        equal(expected, seen, "each once, in order");
    }

    private void fencing() throws Exception {
        String topic = topic("java-fencing", 1);
        try (KafkaProducer<byte[], byte[]> old = producer("transactional.id", topic);
                KafkaProducer<byte[], byte[]> next = producer("transactional.id", topic)) {
            old.initTransactions();
            old.beginTransaction();
            old.send(record(topic, 0, "old")).get(TIMEOUT_S, TimeUnit.SECONDS);
            next.initTransactions();
            boolean fenced = false;
            try {
                old.send(record(topic, 0, "zombie"));
                old.commitTransaction();
            } catch (ProducerFencedException | InvalidProducerEpochException e) {
                fenced = true;
            }
            check(fenced, "the old instance went on");
            next.beginTransaction();
            next.send(record(topic, 0, "next"));
            next.commitTransaction();
        }
        equal(List.of("next"), texts(readAll(topic, 1, "isolation.level", "read_committed")), "records");
    }

    /** ListTransactions, DescribeTransactions, DescribeProducers, and an abort by the administrator. */
    private void hangingTransaction() throws Exception {
        String topic = topic("java-hanging", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        try (Admin admin = admin(); KafkaProducer<byte[], byte[]> producer = producer("transactional.id", topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(topic, 0, "hangs")).get(TIMEOUT_S, TimeUnit.SECONDS);
            ListTransactionsOptions mine = new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING));
            check(admin.listTransactions(mine).all().get().stream().anyMatch(t -> t.transactionalId().equals(topic)), "it is not listed");
            equal(0, admin.listTransactions(new ListTransactionsOptions().filterOnDuration(60_000)).all().get().stream()
                    .filter(t -> t.transactionalId().equals(topic)).toList().size(), "listed as old");
            TransactionDescription described = admin.describeTransactions(Set.of(topic)).description(topic).get();
            equal(TransactionState.ONGOING, described.state(), "state");
            equal(Set.of(place), described.topicPartitions(), "partitions");
            ProducerState state = admin.describeProducers(Set.of(place)).partitionResult(place).get().activeProducers().get(0);
            equal(described.producerId(), state.producerId(), "producer id");
            equal(0L, state.currentTransactionStartOffset().getAsLong(), "start offset");
            equal(0L, admin.listOffsets(Map.of(place, OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED))
                    .partitionResult(place).get().offset(), "last stable offset");
            admin.abortTransaction(new AbortTransactionSpec(place, state.producerId(), (short) state.producerEpoch(),
                    state.coordinatorEpoch().orElse(0))).all().get();
            equal(2L, admin.listOffsets(Map.of(place, OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED))
                    .partitionResult(place).get().offset(), "last stable offset after the abort");
            producer.abortTransaction();
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, String value) {
        return new ProducerRecord<>(topic, partition, null, value.getBytes(StandardCharsets.UTF_8));
    }

    private static List<String> texts(List<ConsumerRecord<byte[], byte[]>> records) {
        List<String> found = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> r : records) found.add(new String(r.value(), StandardCharsets.UTF_8));
        return found;
    }

    private Admin admin() {
        return Admin.create(settings(new String[0]));
    }

    private static boolean listed(Admin admin, String topic) {
        try {
            return admin.listTopics().names().get(TIMEOUT_S, TimeUnit.SECONDS).contains(topic);
        } catch (Exception e) {
            throw new AssertionError("topics are not listed: " + e);
        }
    }

    private static int partitions(Admin admin, String topic) {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get(TIMEOUT_S, TimeUnit.SECONDS).get(topic).partitions().size();
        } catch (Exception e) {
            throw new AssertionError("the topic is not described: " + e);
        }
    }

    private KafkaProducer<byte[], byte[]> producer(String... settings) {
        Map<String, Object> all = settings(settings, "acks", "all", "linger.ms", "20", "delivery.timeout.ms", "30000", "request.timeout.ms", "10000");
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(String... settings) {
        Map<String, Object> all = settings(settings, "auto.offset.reset", "earliest", "enable.auto.commit", "false", "heartbeat.interval.ms", "300", "group.protocol", "classic");
        if (all.get("group.protocol").equals("consumer")) all.remove("heartbeat.interval.ms"); // the broker says how often
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Map<String, Object> settings(String[] given, String... defaults) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        common.forEach((name, value) -> all.put((String) name, value));
        for (int i = 0; i < defaults.length; i += 2) all.put(defaults[i], defaults[i + 1]);
        for (int i = 0; i < given.length; i += 2) all.put(given[i], given[i + 1]);
        return all;
    }

    private List<ConsumerRecord<byte[], byte[]>> readAll(String topic, int count, String... settings) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo p : consumer.partitionsFor(topic)) partitions.add(new TopicPartition(topic, p.partition()));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            return poll(consumer, count);
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (records.size() < count && System.nanoTime() < deadline) consumer.poll(Duration.ofMillis(300)).forEach(records::add);
        return records;
    }

    private static boolean pollOnce(KafkaConsumer<byte[], byte[]> consumer, Set<String> seen) {
        consumer.poll(Duration.ofMillis(50)).forEach(r -> seen.add(text(r.value())));
        return true;
    }

    private static void eventually(BooleanSupplier condition, String what) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (!condition.getAsBoolean()) check(System.nanoTime() < deadline, "not in time: " + what);
    }

    private static void fails(Class<? extends Exception> kind, Future<?> future) throws Exception {
        try {
            future.get(TIMEOUT_S, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            check(kind.isInstance(e.getCause()), "expected " + kind.getSimpleName() + ", got " + e.getCause());
            return;
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }

    private static byte[] text(String value) {
        return value.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] value) {
        return new String(value, StandardCharsets.UTF_8);
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    private static void equal(Object expected, Object actual, String what) {
        if (!Objects.equals(expected, actual)) throw new AssertionError(what + ": expected " + expected + ", got " + actual);
    }
}
