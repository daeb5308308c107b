// Apache Kafka's own programs against one broker, in one JVM. Usage:
//   Tools HOST:PORT cases [NAME]...    runs them, or those that are named; prints `PASS name` or `FAIL name: why`
// Cases of access rules and users need a broker with an authorizer, and run only when they are named.
// A case runs a program as its shell script would, and looks for what it must have printed.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Utils;

public final class Tools {
    private static final String TOOLS = "org.apache.kafka.tools.";
    private static final PrintStream OUT = System.out;
    private static final long TIMEOUT_MS = 60_000;

    /** What the program at work has asked for: its exit codes, and what is to be done at the end of the process. */
    private static final List<Integer> CODES = Collections.synchronizedList(new ArrayList<>());
    private static final List<Runnable> HOOKS = Collections.synchronizedList(new ArrayList<>());

    private final String bootstrap;
    private final String topic = "tools-" + UUID.randomUUID();

    /** When the program has said all: some go on to print after they have ended. */
    private Predicate<String> finished = text -> true;

    private interface Case {
        void run() throws Exception;
    }

    /** A program wants to end the process. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;

        Ended(String message) {
            super(message);
        }
    }

    private Tools(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** Runs `name` with its input and arguments; everything that it printed. Fails unless it ends with 0. */
    private String run(String input, String name, String... arguments) throws Exception {
        String className = name.contains(".admin.") || name.startsWith("kafka.") ? name : TOOLS + name;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        InputStream stdin = System.in;
        PrintStream errors = System.err;
        Throwable[] failure = new Throwable[1];
        CODES.clear();
        HOOKS.clear();
        Thread thread = new Thread(() -> {
            try {
                Class.forName(className).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException wrapped) {
                failure[0] = wrapped.getCause();
            } catch (ReflectiveOperationException wrong) {
                failure[0] = wrong;
            }
        }, name);
        thread.setDaemon(true);
        try (PrintStream captured = new PrintStream(said, true, StandardCharsets.UTF_8)) {
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            System.setOut(captured);
            System.setErr(captured);
            thread.start();
            thread.join(TIMEOUT_MS);
            for (Runnable hook : List.copyOf(HOOKS)) {
                hook.run();
            }
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(TIMEOUT_MS);
            while (!finished.test(said.toString(StandardCharsets.UTF_8)) && System.nanoTime() < deadline) {
                Thread.sleep(20);
            }
        } finally {
            System.setIn(stdin);
            System.setOut(OUT);
            System.setErr(errors);
        }
        String text = said.toString(StandardCharsets.UTF_8);
        if (thread.isAlive()) {
            throw new AssertionError(name + " has not ended: " + text);
        }
        // Some catch what ends them, and end again with 1: the first code is the one that they mean.
        int code = !CODES.isEmpty() ? CODES.get(0) : failure[0] == null ? 0 : 1;
        if (code != 0) {
            throw new AssertionError(name + " ends with " + code + ": " + failure[0] + " " + text, failure[0]);
        }
        return text;
    }

    private String tool(String name, String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of("--bootstrap-server", bootstrap));
        all.addAll(Arrays.asList(arguments));
        return run("", name, all.toArray(new String[0]));
    }

    private String shareGroup() {
        return "s" + topic;
    }

    /**
     * One of Kafka's formatters finds `pattern` in an internal topic: in the partition where `key` is, or in all. It ends when
     * nothing has come for a while, and a busy machine may take longer for the first.
     */
    private void internal(String name, String key, String formatter, String pattern) throws Exception {
        List<String> arguments = new ArrayList<>(List.of("--topic", name, "--formatter", TOOLS + "consumer." + formatter));
        if (key == null) {
            arguments.add("--from-beginning");
        } else {
            String partition = Integer.toString(Utils.abs(key.hashCode()) % 50);
            arguments.addAll(List.of("--partition", partition, "--offset", "earliest"));
        }
        String read = "";
        for (int ms = 2000; ms <= 16_000 && !Pattern.compile(pattern).matcher(read).find(); ms *= 2) {
            read = tool("consumer.ConsoleConsumer", with(arguments.toArray(new String[0]), "--timeout-ms", "" + ms));
        }
        wanted(pattern, read);
    }

    private static void wanted(String pattern, String text) {
        if (!Pattern.compile(pattern, Pattern.MULTILINE).matcher(text).find()) {
            throw new AssertionError("no " + pattern + " in: " + text);
        }
    }

    private static void unwanted(String word, String text) {
        if (text.contains(word)) {
            throw new AssertionError(word + " in: " + text);
        }
    }

    private static String lines(int count) {
        return IntStream.range(0, count).mapToObj(n -> "k" + n % 7 + ":value " + n + "\n").collect(Collectors.joining());
    }

    private static Path file(String content) throws Exception {
        Path path = Files.createTempFile("tools", ".json");
        path.toFile().deleteOnExit();
        return Files.writeString(path, content);
    }

    private Map<String, Case> cases() {
        Map<String, Case> found = new LinkedHashMap<>();
        found.put("topics", () -> {
            tool("TopicCommand", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=86400000");
            wanted(topic, tool("TopicCommand", "--list"));
            String described = tool("TopicCommand", "--describe", "--topic", topic);
            wanted("PartitionCount: 3.*ReplicationFactor: 1.*retention.ms=86400000", described);
            tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "4");
            wanted("PartitionCount: 4", tool("TopicCommand", "--describe", "--topic", topic));
            wanted("^\\s*$", tool("TopicCommand", "--describe", "--unavailable-partitions"));
        });
        found.put("console", () -> {
            run(lines(100), "ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", topic,
                "--reader-property", "parse.key=true", "--reader-property", "key.separator=:");
            String read = tool("consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "100",
                "--timeout-ms", "30000", "--group", topic, "--formatter-property", "print.key=true");
            wanted("^k3\tvalue 3$", read);
            wanted("^k1\tvalue 99$", read);
        });
        found.put("offsets", () -> {
            String ends = tool("GetOffsetShell", "--topic", topic);
            int sum = ends.lines().mapToInt(line -> Integer.parseInt(line.substring(line.lastIndexOf(':') + 1))).sum();
            if (sum != 100) {
                throw new AssertionError("100 records, but " + ends);
            }
            wanted(topic + ":0:0", tool("GetOffsetShell", "--topic", topic, "--time", "earliest"));
            wanted(topic + ":\\d:", tool("GetOffsetShell", "--topic", topic, "--time", "max-timestamp"));
        });
        found.put("console-share", () -> {
            String[] early = {"--entity-type", "groups", "--entity-name", shareGroup(), "--alter", "--add-config",
                "share.auto.offset.reset=earliest"};
            tool("kafka.admin.ConfigCommand", early);
            String read = tool("consumer.ConsoleShareConsumer", "--topic", topic, "--max-messages", "100", "--timeout-ms", "30000",
                "--group", shareGroup());
            wanted("^value 3$", read);
            wanted("Processed a total of 100 messages", read);
            wanted(topic, tool("consumer.group.ShareGroupCommand", "--describe", "--group", shareGroup(), "--offsets"));
        });
        found.put("offsets-formatter", () ->
            internal("__consumer_offsets", topic, "OffsetsMessageFormatter",
                "\"group\":\"" + topic + "\",\"topic\":\"" + topic + "\",\"partition\":\\d.*\"offset\":\\d"));
        found.put("group-metadata-formatter", () ->
            internal("__consumer_offsets", topic, "GroupMetadataMessageFormatter",
                "\"group\":\"" + topic + "\".*\"protocolType\":\"consumer\""));
        found.put("share-group-formatter", () ->
            internal("__consumer_offsets", shareGroup(), "ShareGroupMessageFormatter",
                "\"groupId\":\"" + shareGroup() + "\".*\"epoch\":"));
        found.put("share-state-formatter", () ->
            internal("__share_group_state", null, "group.share.ShareGroupStateMessageFormatter",
                "\"groupId\":\"" + shareGroup() + "\".*\"startOffset\":"));
        found.put("group-configs", () -> {
            String config = "kafka.admin.ConfigCommand";
            String[] where = {"--entity-type", "groups", "--entity-name", "g" + topic};
            tool(config, with(where, "--alter", "--add-config", "streams.num.standby.replicas=2"));
            String all = tool(config, with(where, "--describe", "--all"));
            wanted("streams.num.standby.replicas=2 .*GROUP_CONFIG:streams.num.standby.replicas=2, DEFAULT_CONFIG:group.streams", all);
            wanted("consumer.session.timeout.ms=45000 .*DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000", all);
            if (all.lines().filter(line -> line.contains(".ms=") || line.contains("share.") || line.contains("streams.") || line.contains("errors.")).count() != 21) {
                throw new AssertionError("21 settings, but " + all);
            }
            try {
                tool(config, with(where, "--alter", "--add-config", "share.delivery.count.limit=11"));
                throw new IllegalStateException("a limit above the broker's is taken");
            } catch (AssertionError refused) {
                wanted("InvalidConfigurationException", refused.getMessage());
            }
            tool(config, with(where, "--alter", "--delete-config", "streams.num.standby.replicas"));
        });
        found.put("groups", () -> {
            wanted(topic, tool("consumer.group.ConsumerGroupCommand", "--list"));
            wanted(topic + ".*(Empty|Stable)", tool("consumer.group.ConsumerGroupCommand", "--list", "--state"));
            wanted(topic + "\\s+Classic\\s+consumer", tool("GroupsCommand", "--list"));
            String group = "consumer.group.ConsumerGroupCommand";
            wanted("LAG", tool(group, "--describe", "--group", topic));
            wanted("COORDINATOR", tool(group, "--describe", "--group", topic, "--state"));
            String[] reset = {"--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest", "--execute"};
            wanted(topic + "\\s+" + topic + "\\s+0\\s+0", tool(group, reset));
            String[] export = {"--reset-offsets", "--group", topic, "--all-topics", "--shift-by", "1", "--export", "--dry-run"};
            wanted("\"?" + topic + "\"?,\\d,1", tool(group, export));
            tool(group, "--delete-offsets", "--group", topic, "--topic", topic);
            wanted("successful", tool(group, "--delete", "--group", topic));
        });
        found.put("configs", () -> {
            String config = "kafka.admin.ConfigCommand";
            String[] where = {"--entity-type", "topics", "--entity-name", topic};
            tool(config, with(where, "--alter", "--add-config", "segment.bytes=1048576,cleanup.policy=[compact,delete]"));
            wanted("cleanup.policy=compact,delete", tool(config, with(where, "--describe")));
            tool(config, with(where, "--alter", "--delete-config", "segment.bytes,cleanup.policy"));
            wanted("(?s)^(?!.*segment.bytes)", tool(config, with(where, "--describe")));
            wanted("log.dirs", tool(config, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"));
            String[] client = {"--entity-type", "clients", "--entity-name", topic};
            tool(config, with(client, "--alter", "--add-config", "producer_byte_rate=1000000"));
            wanted("producer_byte_rate=1000000", tool(config, with(client, "--describe")));
            tool(config, with(client, "--alter", "--delete-config", "producer_byte_rate"));
        });
        found.put("delete-records", () -> {
            Path json = file("{\"version\":1,\"partitions\":[{\"topic\":\"" + topic + "\",\"partition\":0,\"offset\":1}]}");
            wanted("low_watermark: 1", tool("DeleteRecordsCommand", "--offset-json-file", json.toString()));
        });
        found.put("log-dirs", () ->
            wanted("\"topic|\"partition\":\"" + topic + "-0\"", tool("LogDirsCommand", "--describe", "--topic-list", topic)));
        found.put("leader-election", () ->
            wanted("(already|Valid replica already elected|completed)", tool("LeaderElectionCommand", "--election-type",
                "preferred", "--topic", topic, "--partition", "0")));
        found.put("reassignment", () -> {
            String place = "{\"topic\":\"" + topic + "\",\"partition\":0,\"replicas\":[1]}";
            Path json = file("{\"version\":1,\"partitions\":[" + place + "]}");
            String reassign = "reassign.ReassignPartitionsCommand";
            tool(reassign, "--reassignment-json-file", json.toString(), "--execute");
            wanted("is completed?", tool(reassign, "--reassignment-json-file", json.toString(), "--verify"));
            wanted("No partition reassignments found", tool(reassign, "--list"));
        });
        found.put("broker-api-versions", () ->
            wanted("Fetch\\(1\\).*usable", tool("BrokerApiVersionsCommand")));
        found.put("features", () -> wanted("transaction.version", tool("FeatureCommand", "describe")));
        found.put("metadata-quorum", () -> {
            wanted("LeaderId:\\s+1", tool("MetadataQuorumCommand", "describe", "--status"));
            wanted("Leader", tool("MetadataQuorumCommand", "describe", "--replication"));
        });
        found.put("cluster-id", () -> wanted("Cluster ID: \\S{22}", run("", "ClusterTool", "cluster-id", "-b", bootstrap)));
        found.put("client-metrics", () -> {
            String name = "m" + topic;
            tool("ClientMetricsCommand", "--alter", "--name", name, "--metrics", "org.apache.kafka.", "--interval", "30000");
            wanted("interval.ms=30000", tool("ClientMetricsCommand", "--describe", "--name", name));
            tool("ClientMetricsCommand", "--delete", "--name", name);
        });
        found.put("transactions", () -> {
            wanted("TransactionalId|^\\s*$", tool("TransactionsCommand", "list"));
            wanted("ProducerId", tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", "0"));
            tool("TransactionsCommand", "find-hanging", "--topic", topic);
        });
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
            found.put("producer-perf-" + codec, () ->
                wanted("2000 records sent", run("", "ProducerPerformance", "--topic", topic, "--num-records", "2000",
                    "--record-size", "100", "--throughput", "-1", "--command-property", "bootstrap.servers=" + bootstrap,
                    "compression.type=" + codec)));
        }
        found.put("producer-perf-transactions", () ->
            wanted("2000 records sent", run("", "ProducerPerformance", "--topic", topic, "--num-records", "2000",
                "--record-size", "100", "--throughput", "-1", "--transaction-duration-ms", "100", "--command-property",
                "bootstrap.servers=" + bootstrap)));
        found.put("transaction-formatter", () ->
            internal("__transaction_state", null, "TransactionLogMessageFormatter",
                "\"transactionalId\":\".*\"producerId\":\\d+.*\"transactionStatus\":"));
        found.put("consumer-perf", () ->
            wanted("\\d{4}-\\d\\d-\\d\\d.*, 1[0-9]{4}", tool("ConsumerPerformance", "--topic", topic, "--num-records",
                "10000", "--timeout", "30000")));
        found.put("verifiable", () -> {
            finished = text -> acked(text) >= 500;
            try {
                String wrote = tool("VerifiableProducer", "--topic", topic, "--max-messages", "500", "--throughput", "-1");
                if (acked(wrote) != 500) {
                    throw new AssertionError(acked(wrote) + " of 500: " + wrote);
                }
            } finally {
                finished = text -> true;
            }
            String read = tool("VerifiableConsumer", "--topic", topic, "--group-id", "v" + topic, "--max-messages", "500",
                "--reset-policy", "earliest");
            wanted("records_consumed", read);
            wanted("offsets_committed.*\"success\":true|\"success\":true", read);
        });
        found.put("end-to-end-latency", () ->
            wanted("Avg latency", run("", "EndToEndLatency", "--bootstrap-server", bootstrap, "--topic", "e" + topic,
                "--num-records", "50", "--producer-acks", "all", "--record-size", "64")));
        found.put("compatibility-test", () -> {
            tool("TopicCommand", "--delete", "--topic", "newtopic", "--if-exists"); // it makes one, and leaves it
            run("", "ClientCompatibilityTest", "--bootstrap-server", bootstrap, "--topic", "c" + topic,
                "--num-cluster-nodes", "1", "--offsets-for-times-supported", "true", "--cluster-id-supported", "true",
                "--expect-record-too-large-exception", "false", "--create-topics-supported", "true",
                "--describe-acls-supported", "true", "--describe-configs-supported", "true",
                "--idempotent-producer-supported", "true");
        });
        found.put("delete-topic", () -> {
            tool("TopicCommand", "--delete", "--topic", topic);
            wanted("(?s)^(?!.*^" + topic + "$)", tool("TopicCommand", "--list"));
        });
        return found;
    }

    /** For a broker with an authorizer, where this client may do everything. */
    private Map<String, Case> securityCases() {
        Map<String, Case> found = new LinkedHashMap<>();
        found.put("acls", () -> {
            String acls = "AclCommand";
            String[] alice = {"--allow-principal", "User:alice"};
            tool(acls, with(alice, "--add", "--producer", "--topic", topic, "--transactional-id", "x"));
            tool(acls, with(alice, "--add", "--consumer", "--topic", topic, "--group", "g"));
            tool(acls, "--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.66", "--operation", "All", "--topic",
                topic.substring(0, 9), "--resource-pattern-type", "prefixed");
            tool(acls, with(alice, "--add", "--operation", "DescribeConfigs", "--cluster"));
            tool(acls, with(alice, "--add", "--operation", "DescribeTokens", "--user-principal", "User:bob"));
            String[] about = {"--list", "--topic", topic};
            String exact = tool(acls, about);
            wanted("name=" + topic + ", patternType=LITERAL", exact);
            unwanted("PREFIXED", exact);
            for (String operation : new String[] {"READ", "WRITE", "CREATE", "DESCRIBE"}) {
                wanted("principal=User:alice, host=\\*, operation=" + operation + ", permissionType=ALLOW", exact);
            }
            wanted("principal=User:\\*, host=10.0.0.66, operation=ALL, permissionType=DENY",
                tool(acls, with(about, "--resource-pattern-type", "match")));
            String all = tool(acls, "--list", "--principal", "User:alice");
            for (String name : new String[] {"TRANSACTIONAL_ID, name=x", "GROUP, name=g", "CLUSTER, name=kafka-cluster"}) {
                wanted("resourceType=" + name, all);
            }
            tool(acls, "--remove", "--force", "--allow-principal", "User:alice", "--operation", "Write", "--topic", topic);
            unwanted("operation=WRITE", tool(acls, about));
            tool(acls, "--remove", "--force", "--topic", topic, "--resource-pattern-type", "match");
            unwanted("patternType", tool(acls, with(about, "--resource-pattern-type", "match")));
            wanted("GROUP, name=g", tool(acls, "--list"));
        });
        found.put("users", () -> {
            String config = "kafka.admin.ConfigCommand";
            String[] where = {"--entity-type", "users", "--entity-name", "kafkas"};
            tool(config, with(where, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=by-kafka]"));
            tool(config, with(where, "--alter", "--add-config", "SCRAM-SHA-512=[password=by-kafka]"));
            String described = tool(config, with(where, "--describe"));
            wanted("SCRAM-SHA-256=iterations=8192", described);
            wanted("SCRAM-SHA-512=iterations=4096", described);
            tool(config, with(where, "--alter", "--delete-config", "SCRAM-SHA-512"));
            described = tool(config, "--entity-type", "users", "--describe");
            wanted("kafkas.*SCRAM-SHA-256=", described);
            unwanted("SCRAM-SHA-512", described);
        });
        return found;
    }

    private static long acked(String text) {
        return text.lines().filter(line -> line.contains("producer_send_success")).count();
    }

    private static String[] with(String[] first, String... more) {
        List<String> all = new ArrayList<>(Arrays.asList(first));
        all.addAll(Arrays.asList(more));
        return all.toArray(new String[0]);
    }

    public static void main(String[] arguments) {
        Exit.setExitProcedure((code, message) -> {
            CODES.add(code);
            throw new Ended(message);
        });
        Exit.setHaltProcedure((code, message) -> {
            CODES.add(code);
            throw new Ended(message);
        });
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        List<String> only = Arrays.asList(arguments).subList(2, arguments.length);
        boolean failed = false;
        Tools tools = new Tools(arguments[0]);
        Map<String, Case> cases = tools.cases();
        if (!only.isEmpty()) {
            cases.putAll(tools.securityCases());
            cases.keySet().retainAll(only);
        }
        for (Map.Entry<String, Case> one : cases.entrySet()) {
            try {
                one.getValue().run();
                OUT.println("PASS " + one.getKey());
            } catch (Exception | AssertionError error) {
                failed = true;
                OUT.println("FAIL " + one.getKey() + ": " + error.toString().replace('\n', ' '));
            }
        }
        Runtime.getRuntime().halt(failed ? 1 : 0);
    }
}
