"""Record batches: layout, validation, compression. The only part of `protocol` that storage may import.

Start reading at `record_batch.py` (format 2) and `legacy_record.py` (0 and 1); `_kernel.pyx` is what runs for each batch.
`conversion.py` converts down, for fetches of old clients; `storage/log/validator.py` converts message sets of old producers up;
`_conversion.pyx` reads and writes the records for both.
"""
