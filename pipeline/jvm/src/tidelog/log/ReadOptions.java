package tidelog.log;

import java.io.Serializable;

/**
 * Options of the Python source, by their names there.
 *
 * @param readCommitted leave out records of aborted transactions
 * @param failOnDataLoss throw DataLostException where records have gone, else go on behind them
 * @param skipCorrupt {@code corruptBatches=skip}
 * @param checkCrc {@code checkCrcs}
 */
public record ReadOptions(boolean readCommitted, boolean failOnDataLoss, boolean skipCorrupt,
        boolean checkCrc) implements Serializable {
    public static final ReadOptions DEFAULT = new ReadOptions(false, true, false, true);
}
