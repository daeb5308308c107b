package tidelog.log;

/** Offsets [start, end) of a partition that can be read. */
public record Bounds(long start, long end) {}
