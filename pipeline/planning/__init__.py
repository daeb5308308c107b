"""Plans a read: partitions, offsets and times, splits of a batch or of a stream's trigger. Driver only.

Start reading at `batch_plan.py`; `places.py` says where the bytes of a partition are.
"""
