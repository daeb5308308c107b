package tidelog.log;

/** Records of message format 0 or 1 stand in the way; the source in Python reads them. */
public final class UnsupportedFormatException extends LogException {
    private static final long serialVersionUID = 1;

    public UnsupportedFormatException(String message) {
        super(message);
    }
}
