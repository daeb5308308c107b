"""The compiled part of a pass, which touches every record, with its offset map, results and mixed formats.

Start reading at `offset_map.py`; `_kernel.pyx` is called by `../cleaning.py` and `../cleaned_writer.py`.
"""
