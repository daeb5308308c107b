"""Which old segments go, and when: the plan, the executor that carries it out, the outlook for people, the history.

Start reading at `plan.py`, then `retention.py`; the policies that a plan asks are `../deletion_policy.py`.
"""
