"""What is in the objects of a backup: names, checksums, lists of partitions, manifests of cuts. Start reading in `keys.py`.

`keys.py` names objects, `sealed.py` puts a version and a checksum around small ones, `entries.py` has the values of a list and
`manifest.py` their bytes. Pure: no store, no files.
"""
