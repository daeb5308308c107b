package tidelog.log;

/** Offsets that were asked for are gone: {@code DataLossError}. */
public final class DataLostException extends LogException {
    private static final long serialVersionUID = 1;

    public DataLostException(String message) {
        super(message);
    }
}
