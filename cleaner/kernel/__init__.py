"""The part of a pass that touches every record, compiled, with its offset map, results and mixed formats.

Start reading at `offset_map.py`; `_kernel.pyx` is called by `../cleaning.py` and `../cleaned_writer.py`.
"""
