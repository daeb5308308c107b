"""PySpark sources, sink and jobs over the log. Empty until the pipeline is built."""
