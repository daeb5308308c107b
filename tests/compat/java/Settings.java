// The settings of a broker and of a topic, as the Apache Kafka on the class path declares them: a line each, with tabs between
// scope, name, type, default, allowed values, importance and `I` for an internal one. tests/golden/kafka-settings.tsv is its output.
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

public final class Settings {
    public static void main(String[] words) throws IOException {
        Properties release = new Properties();
        try (InputStream stream = ConfigDef.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            release.load(stream);
        }
        System.out.println("# Settings of Apache Kafka " + release.getProperty("version")
            + ", read off its own ConfigDef objects (AbstractKafkaConfig.CONFIG_DEF, LogConfig.configDefCopy())");
        System.out.println("# scope\tname\ttype\tdefault\tallowed\timportance\tinternal");
        print("BROKER", AbstractKafkaConfig.CONFIG_DEF);
        print("TOPIC", LogConfig.configDefCopy());
    }

    private static void print(String scope, ConfigDef settings) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(settings.configKeys()).values()) {
            List<String> cells = new ArrayList<>(List.of(scope, key.name, key.type.name()));
            cells.add(key.hasDefault() ? String.valueOf(ConfigDef.convertToString(key.defaultValue, key.type)) : "REQUIRED");
            cells.add(key.validator == null ? "" : key.validator.toString());
            cells.add(key.importance.name());
            cells.add(key.internalConfig ? "I" : "");
            System.out.println(String.join("\t", cells).replace("\n", " "));
        }
    }
}
