package tidelog.log;

import java.io.IOException;

/**
 * A log directory is not there, has no such topic, or is in a state that cannot be read: {@code DirectoryError} and {@code
 * TopicError}.
 */
public class LogException extends IOException {
    private static final long serialVersionUID = 1;

    public LogException(String message) {
        super(message);
    }
}
