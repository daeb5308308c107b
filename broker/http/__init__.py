"""The HTTP listener: `/metrics`, `/health`, `/why`, `/clean`, and the console's pages in `console/`.

Runs on threads of its own, with places, deadlines and users. Start reading at `server.py`.
"""
