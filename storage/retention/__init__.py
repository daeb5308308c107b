"""Which old segments go, and when: the plan, its outlook for people, its history.

What removes them is in `../log`; the policies that a plan asks are `../deletion_policy.py`. Start reading at `plan.py`.
"""
