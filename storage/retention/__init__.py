"""Deletion of old segments: the plan, its outlook for metrics, and the record of deleted segments.

Start reading at `plan.py`; `../log/retention_executor.py` carries a plan out; the policies that a plan asks are
`../deletion_policy.py`.
"""
