package tidelog.log;

/**
 * Wanted size of splits.
 *
 * @param fixedBytes that the user asked for; 0: as it suits the cluster
 * @param leastTasks {@code minPartitions}, or 0
 * @param cores of the cluster, 0 if unknown
 */
public record SplitSize(long fixedBytes, int leastTasks, int cores) {
    /** Bytes of one split, unless there is a reason for another size. */
    public static final long DEFAULT_BYTES = 64L << 20;

    // No split is made smaller to give every core something to do: what a task costs beside its bytes is about reading so many.
    private static final long LEAST_BYTES = 4L << 20;
    // Tasks of one read, beyond which splits become larger: a driver's memory and a scheduler's time follow them.
    private static final int MOST_TASKS = 10_000;
    private static final int TASKS_PER_CORE = 2;

    /** Bytes of one split of a read of {@code total} bytes. */
    public long bytesFor(long total) {
        long size = fixedBytes;
        if (size == 0) {
            size = Math.max(DEFAULT_BYTES, total / Math.max(MOST_TASKS, 4L * cores));
            if (cores > 0) {
                size = Math.min(size, Math.max(total / ((long) TASKS_PER_CORE * cores), LEAST_BYTES));
            }
        }
        if (leastTasks > 0) {
            size = Math.min(size, total / leastTasks);
        }
        return Math.max(size, 1);
    }
}
