package tidelog.log;

/** A batch in a file is damaged: {@code CorruptLogError}. */
public final class CorruptLogException extends LogException {
    private static final long serialVersionUID = 1;

    public CorruptLogException(String message) {
        super(message);
    }
}
