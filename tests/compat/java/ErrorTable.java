import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints Kafka's error codes: number, name, whether clients try again. Run from its source by tests/compat/test_kafka_messages.py. */
public class ErrorTable {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values())
            System.out.println(error.code() + "\t" + error.name() + "\t" + (error.exception() instanceof RetriableException));
    }
}
