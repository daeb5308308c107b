package tidelog.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InvalidObjectException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/**
 * What goes from the driver to executors, with the version of the driver's jar. An executor with another one says so: Java takes
 * records for the same whose components are not, and leaves out what it does not know. This class must stay as it is.
 *
 * @param version of the jar that has written it
 * @param content one object, as Java serializes it
 */
record Shipped(String version, byte[] content) implements Serializable {
    private static final long serialVersionUID = 1;
    /** Of this jar: release/jar.py puts it there. Classes that come from no jar have none. */
    private static final String VERSION = read();

    private static String read() {
        try (InputStream text = Shipped.class.getResourceAsStream("version")) {
            return text == null ? "" : new String(text.readAllBytes(), StandardCharsets.UTF_8).strip();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** The driver's. */
    static Shipped of(Serializable object) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream content = new ObjectOutputStream(bytes)) {
            content.writeObject(object);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return new Shipped(VERSION, bytes.toByteArray());
    }

    /** The executor's: what was shipped takes this one's place. */
    private Object readResolve() throws InvalidObjectException {
        if (!VERSION.equals(version)) {
            throw new InvalidObjectException("tidelog-spark.jar is of another version on this executor (" + VERSION
                    + ") than at the driver (" + version + "): give both the same, by spark.jars of the session, and take any "
                    + "other out of spark.executor.extraClassPath and Spark's folder of jars");
        }
        try (ObjectInputStream object = new ObjectInputStream(new ByteArrayInputStream(content))) {
            return object.readObject();
        } catch (IOException | ClassNotFoundException error) {
            InvalidObjectException told = new InvalidObjectException(error.toString());
            told.initCause(error);
            throw told;
        }
    }
}
