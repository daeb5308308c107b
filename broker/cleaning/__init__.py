"""The cleaner inside of the daemon, and beside a stopped one: threads from settings, passes on request, reasons.

A pass itself is in `cleaner/`, one package down. Start reading at `service.py`; `why.py` gathers what `tidelog why` tells.
"""
