/**
 * Reads a daemon's segment files in the JVM as {@code tidelog.pipeline} reads them in Python: the same bounds, the same records,
 * the same verdicts on damage. No class of Spark's; {@code tidelog.spark} stands on it.
 *
 * <pre>
 * LogDirectory     what may be read: topics, bounds, splits          driver
 *   OpenTransactions, SplitPlan, SegmentLists, SparseIndex, Headers
 * RecordReader     the records of a range of offsets                 tasks
 *   BatchStream    whole batches, from whichever files have them
 *     Segment, Damage, TopicId
 *   AbortedRanges  which of them readers of committed data skip
 *   Records        what is in one batch
 *     Codecs, Lz4Frame
 * Batch            the layout of a batch's header
 * </pre>
 *
 * <p>What holds throughout:
 * <ul>
 * <li>A range of offsets is all that is planned. Files are found by offset when they are read, since the daemon rolls, deletes
 *     and swaps them meanwhile. A file that is open is read to its end.
 * <li>A listing counts when a second one shows the same inodes; an index entry counts when the batch that it names says the same.
 * <li>No record at or above the high watermark of the checkpoints is read, and for readers of committed data none at or above the
 *     first one of a transaction that is open, and none of those that were aborted.
 * <li>A batch's checksum is looked at before anything else of it is believed. No memory is taken because of what a header, an
 *     index or compressed data merely claims.
 * <li>Message formats 0 and 1 are refused, by an {@link tidelog.log.UnsupportedFormatException}.
 * </ul>
 *
 * <p>The oracle is the reader in Python: {@code tests/jvm} compares rows and verdicts over random logs and damage. Whoever
 * changes one reader changes both.
 */
package tidelog.log;
