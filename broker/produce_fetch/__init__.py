"""Produce and Fetch between their handlers and the partitions: one job per request, from its checks to its answer.

Handlers (`broker/apis/`) parse a frame and choose the job; very many partitions take turns with everybody else (`long_fetch`,
`long_produce`), clients of formats 0 and 1 get what was converted (`legacy_fetch.py`). Start reading at `produce_job.py` and
`fetch_job.py`. Which way a batch takes to its log, also while a disk is slow, is `../partitions/partition.py`'s; answers are sent
by `../network/outbound.py`.
"""
