"""The ground below segments: files and directories as an interface, the page cache, open files, room on disk, pace of writes.

A test's file system takes the place of the real one here. Start reading at `filesystem.py`.
"""
