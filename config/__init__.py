"""Settings: one table, typed views over it, and what is generated from it.

`table/` has the rows, `broker_config.py` and `log_config.py` the views, `loader.py` where values come from. Start reading at
`definitions.py`. `table/__init__.py` says what a new setting touches.
"""
