"""The console: pages at the HTTP listener, made here and complete as they are sent (docs/CONSOLE.md).

Start reading at `routes.py`, which lists all pages; `front.py` is the front that finds one, asks `access.py` who may, and
answers. Each page is a function in the module of its subject; `layout.py` has what all look like, `html.py` makes text of it,
`console.css` is the one style sheet, `console.js` the script that renews live pages. `state.py` is what pages are made from:
what logs publish is read here, what the loop owns is asked through `loop_calls.py`. `confirming.py` is how actions go.

Nothing from elsewhere: a page works without the internet, and its Content-Security-Policy says so. Imported when the first page
is asked for, but `samples.py`. HTTP's threads, any of them.
"""
