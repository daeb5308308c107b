"""From and to Apache Kafka's `__cluster_metadata`: taken over at a start, written by `tidelog log export-kraft`.

`image.py` is what its records come to. Start reading there; `import_.py` and `export.py` are the two ways.
"""
