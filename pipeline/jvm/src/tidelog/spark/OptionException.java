package tidelog.spark;

/**
 * An option is unknown, missing, of another source or makes no sense; or Spark's checkpoint is another source's. PySpark shows
 * its message alone.
 */
final class OptionException extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    OptionException(String message) {
        super(message);
    }
}
