"""Jobs over topics: `tidelog pipeline JOB`, and each a function of the module of its name. See docs/PIPELINE.md.

    archive    topic → Parquet, incremental and exactly once; and archive and topic as one table
    latest     the newest row of each key → a table
    upsert     topic → Delta or Iceberg, by MERGE
    replay     Parquet → topic, with original timestamps and order
    audit      do two states of a log keep what compaction promises?
    profile    keys, sizes, rates, and what compaction would save, with plots

Start reading at `common.py`, where each begins: the source's options, the offsets to read, the report. `manifest.py` is the
archive's own log, `buckets.py` what is different of an archive in S3, Google Cloud Storage or Azure.
"""
