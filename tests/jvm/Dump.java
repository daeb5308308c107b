package tidelog.log;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.Stream;

/**
 * Answers requests of tests, one a line on standard input, so that many examples need one JVM. Fields are separated by tabs:
 *
 * <pre>
 * read    dirs topic partition from until columns least most how     a line a record, as a JSON array, then []
 * count   dirs topic partition from until columns least most how     [count]
 * bounds  dirs topic partition how                                   [start, end]
 * at      dirs topic partition timestamp                             [offset] or [null]
 * splits  dirs topic partition from until bytes                      [from, until, until, ...]
 * topics  dirs                                                       [topic, ...]
 * gone    dirs topic partition start                                 [words]
 *
 * columns: letters of k v h t; how: letters of c (read_committed), g (go on behind what is gone), s (skip damage), n (no
 * checksums)
 * </pre>
 *
 * Whatever is thrown is answered by {"error": class, "message": text}.
 */
public final class Dump {
    private final PrintStream out =
            new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);

    private String opened = "";
    private LogDirectory directory;

    public static void main(String[] arguments) throws IOException {
        Dump dump = new Dump();
        try (var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                try {
                    dump.answer(line.split("\t", -1));
                } catch (IOException | RuntimeException | Error error) {
                    dump.out.println("{\"error\": \"" + error.getClass().getSimpleName() + "\", \"message\": "
                            + text(String.valueOf(error)) + "}");
                }
                dump.out.flush();
            }
        }
    }

    private void answer(String[] fields) throws IOException {
        if (!opened.equals(fields[1])) { // else as a stream does, which looks again
            directory = LogDirectory.open(Stream.of(fields[1].split(":")).map(Path::of).toArray(Path[]::new));
            opened = fields[1];
        }
        if (fields[0].equals("topics")) {
            out.println(directory.topics().stream().map(Dump::text).toList());
            return;
        }
        int number = Integer.parseInt(fields[3]);
        Partition partition = directory.partitions(List.of(fields[2])).stream().filter(there ->
                there.number() == number).findFirst().orElseThrow();
        switch (fields[0]) {
            case "read", "count" -> read(partition, fields);
            case "bounds" -> {
                Bounds bounds = directory.bounds(List.of(partition), fields[4].contains("c")).get(partition);
                out.println("[" + bounds.start() + ", " + bounds.end() + "]");
            }
            case "at" -> {
                Bounds bounds = directory.bounds(List.of(partition), false).get(partition);
                OptionalLong found = directory.offsetForTimestamp(partition, Long.parseLong(fields[4]), bounds);
                out.println(found.isPresent() ? "[" + found.getAsLong() + "]" : "[null]");
            }
            case "splits" -> {
                Split range = new Split(partition, Long.parseLong(fields[4]), Long.parseLong(fields[5]));
                List<Split> splits = directory.splits(List.of(range), new SplitSize(Long.parseLong(fields[6]), 0, 0));
                out.println(splits.stream().flatMap(split -> Stream.of(split.from(), split.until())).toList());
            }
            case "gone" -> out.println(List.of(text(directory.whyGone(partition, Long.parseLong(fields[4])))));
            default -> throw new IllegalArgumentException(fields[0]);
        }
    }

    private void read(Partition partition, String[] fields) throws IOException {
        String columns = fields[6];
        String how = fields[9];
        Columns wanted = new Columns(columns.contains("k"), columns.contains("v"), columns.contains("h"), columns.contains("t"));
        Filter filter = new Filter(Long.parseLong(fields[7]), Long.parseLong(fields[8]));
        ReadOptions options = new ReadOptions(how.contains("c"), !how.contains("g"), how.contains("s"), !how.contains("n"));
        try (var records = new RecordReader(partition, Long.parseLong(fields[4]), Long.parseLong(fields[5]), wanted, filter,
                options)) {
            if (fields[0].equals("count")) {
                out.println("[" + records.count() + "]");
                return;
            }
            while (records.next()) {
                StringBuilder headers = new StringBuilder();
                for (int i = 0; i < records.headerCount(); i++) {
                    headers.append(i == 0 ? "" : ", ").append('[')
                        .append(bytes(records, records.headerNameStart(i), records.headerNameLength(i))).append(", ")
                        .append(bytes(records, records.headerValueStart(i), records.headerValueLength(i))).append(']');
                }
                out.println("[" + records.offset() + ", " + records.timestamp() + ", " + records.timestampType() + ", "
                    + bytes(records, records.keyStart(), records.keyLength()) + ", "
                    + bytes(records, records.valueStart(), records.valueLength()) + ", [" + headers + "]]");
            }
            out.println("[]");
        }
    }

    private static String bytes(RecordReader records, int start, int length) {
        if (length < 0) {
            return "null";
        }
        byte[] copy = java.util.Arrays.copyOfRange(records.buffer(), start, start + length);
        return '"' + Base64.getEncoder().encodeToString(copy) + '"';
    }

    private static String text(String value) {
        return '"' + value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + '"';
    }
}
