"""Files and directories as an interface, and what belongs to them: page cache, a rename that refuses to replace, open files,
free disk space, pace of writes, checkpoints.

A test's file system takes the place of the real one here. Start reading at `filesystem.py`.
"""
