// Any of Apache Kafka's Java clients from 0.8.2 to 2.0, whichever jars it is run with. Usage:
//   Old HOST:PORT write          produces the records that stdin names, and waits for each to be acknowledged
//   Old HOST:PORT read           prints all messages of the partitions that stdin names, with how many there are to be
//   Old HOST:PORT group GROUP    the same as a member of a group, which commits; then what is committed
// The text form is that of tests/support/clients/old_clients.py. Compiled against 0.10: what has other types in one of them
// is called by name. 0.8.2 has no consumer.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

public final class Old {
    private static final int TIMEOUT_S = 40;

    public static void main(String[] arguments) throws Exception {
        List<String[]> lines = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            lines.add(line.split("\t", -1));
        }
        String bootstrap = arguments[0];
        if (arguments[1].equals("write")) {
            write(bootstrap, lines);
        } else {
            Reading.read(bootstrap, lines, arguments.length > 2 ? arguments[2] : null);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // some of them have threads that do not end
    }

    private static void write(String bootstrap, List<String[]> lines) throws Exception {
        Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String[] line : lines) {
            KafkaProducer<byte[], byte[]> producer = producers.get(line[2]);
            if (producer == null) {
                producer = new KafkaProducer<byte[], byte[]>(producerSettings(bootstrap, line[2]));
                producers.put(line[2], producer);
            }
            int partition = Integer.parseInt(line[1]);
            sent.add(producer.send(new ProducerRecord<>(line[0], partition, bytes(line[3]), bytes(line[4]))));
        }
        for (Future<RecordMetadata> future : sent) {
            future.get(TIMEOUT_S, TimeUnit.SECONDS);
        }
        for (KafkaProducer<byte[], byte[]> producer : producers.values()) {
            producer.close();
        }
    }

    private static Properties producerSettings(String bootstrap, String codec) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("linger.ms", "20");
        settings.put("acks", "all");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        return settings;
    }

    private static byte[] bytes(String text) {
        if (text.equals("-")) {
            return null;
        }
        byte[] data = new byte[text.length() / 2];
        for (int i = 0; i < data.length; i++) {
            data[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return data;
    }

    private static String text(byte[] data) {
        if (data == null) {
            return "-";
        }
        StringBuilder out = new StringBuilder(2 * data.length);
        for (byte one : data) {
            out.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
        }
        return out.toString();
    }

    /** By itself, since 0.8.2 has none of its classes. */
    private static final class Reading {
        static void read(String bootstrap, List<String[]> lines, String group) throws Exception {
            Map<TopicPartition, Integer> wanted = new LinkedHashMap<>();
            for (String[] line : lines) {
                wanted.put(new TopicPartition(line[0], Integer.parseInt(line[1])), Integer.parseInt(line[2]));
            }
            PrintStream out = new PrintStream(System.out, false, "US-ASCII");
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(bootstrap, group));
            if (group == null) {
                call(consumer, "assign", new ArrayList<>(wanted.keySet()));
                for (TopicPartition partition : wanted.keySet()) {
                    consumer.seek(partition, 0L);
                }
            } else {
                LinkedHashSet<String> topics = new LinkedHashSet<>();
                for (TopicPartition partition : wanted.keySet()) {
                    topics.add(partition.topic());
                }
                call(consumer, "subscribe", new ArrayList<>(topics));
            }
            int left = 0;
            for (int count : wanted.values()) {
                left += count;
            }
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
            Method timestamp = timestampOf();
            while (left > 0 && System.nanoTime() < end) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(200);
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    left--;
                    Object time = timestamp == null ? Long.valueOf(-1) : timestamp.invoke(record);
                    out.println(record.topic() + "\t" + record.partition() + "\t" + record.offset() + "\t" + time
                        + "\t" + text(record.key()) + "\t" + text(record.value()));
                }
            }
            if (group != null) {
                consumer.commitSync();
                consumer.close();
                consumer = new KafkaConsumer<>(settings(bootstrap, group));
                for (TopicPartition partition : wanted.keySet()) {
                    OffsetAndMetadata found = consumer.committed(partition);
                    out.println("committed\t" + partition.topic() + "\t" + partition.partition() + "\t"
                        + (found == null ? -1 : found.offset()));
                }
            }
            consumer.close();
            out.flush();
        }

        private static Properties settings(String bootstrap, String group) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "earliest");
            settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            if (group != null) {
                settings.put("group.id", group);
            }
            return settings;
        }

        /** assign and subscribe take a List in 0.9, a Collection later. */
        private static void call(KafkaConsumer<byte[], byte[]> consumer, String name, Object argument) throws Exception {
            for (Method method : KafkaConsumer.class.getMethods()) {
                Class<?>[] types = method.getParameterTypes();
                if (method.getName().equals(name) && types.length == 1 && types[0].isInstance(argument)) {
                    try {
                        method.invoke(consumer, argument);
                    } catch (InvocationTargetException error) {
                        throw new RuntimeException(error.getCause());
                    }
                    return;
                }
            }
            throw new NoSuchMethodException(name);
        }

        private static Method timestampOf() {
            try {
                return ConsumerRecord.class.getMethod("timestamp");
            } catch (NoSuchMethodException before010) {
                return null;
            }
        }
    }
}
