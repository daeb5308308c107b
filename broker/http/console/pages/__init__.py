"""The console's pages: a module for each subject, a function for each page or action.

`../routes.py` lists them with their addresses; each is imported when it is asked for first. Start reading at `overview.py`.
"""
