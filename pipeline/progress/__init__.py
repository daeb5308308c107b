"""What a stream's progress tells: how far it is behind, offsets for Spark's Kafka source, and a consumer group that follows.

Start reading at `lag.py`, which computes from what Spark's progress says; `group_commits.py` writes offsets into a consumer
group, `query_groups.py` says which group follows which query, and `listener.py` is told of each batch by Spark.
Only the listener imports pyspark.
"""
