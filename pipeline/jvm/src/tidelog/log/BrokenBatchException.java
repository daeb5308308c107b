package tidelog.log;

/** A batch is not what was written, and why: internal, becomes a {@link CorruptLogException} that says where. */
final class BrokenBatchException extends Exception {
    private static final long serialVersionUID = 1;

    BrokenBatchException(String message) {
        super(message, null, false, false);
    }
}
