package tidelog.log;

/** Offsets that were asked for are gone: {@code DataLossError}. */
public final class DataLostException extends LogException {
    private static final long serialVersionUID = 1;

    private final long first;
    private final long until;

    public DataLostException(String message, long first, long until) {
        super(message);
        this.first = first;
        this.until = until;
    }

    /** The first offset that is gone. */
    public long first() {
        return first;
    }

    /** The first offset behind those that are gone. */
    public long until() {
        return until;
    }
}
