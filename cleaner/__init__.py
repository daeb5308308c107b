"""The log cleaner (compaction by key). Empty until the cleaner is built."""
