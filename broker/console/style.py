"""The console's one style sheet: light and dark by what the reader's system says, small screens, colours with contrast.

Sections of a log have the same colour everywhere. Text on the ground and on every section has a contrast of 4.5 or more.
"""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --text: #1a1f24; --quiet: #57606a; --line: #d0d7de; --link: #0a58a8;
  --clean: #b7dfc2; --dirty: #f3d19c; --active: #b9d4f5; --closed: #d6dae0; --next: #a40e26; --on: #1a1f24; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181d; --text: #e6eaee; --quiet: #9aa4af; --line: #39424c;
  --link: #7ab7ff; --clean: #2b6a40; --dirty: #7d5410; --active: #265a94; --closed: #454e58; --next: #ff8f9c; --on: #ffffff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--ground); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
a { color: var(--link); } a:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; }
nav { border-bottom: 1px solid var(--line); padding-bottom: .5rem; overflow-wrap: anywhere; }
.quiet { color: var(--quiet); } .warning { border-left: 4px solid var(--next); padding-left: .75rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--quiet); font-weight: 600; } td { overflow-wrap: anywhere; min-width: 5rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; min-width: 0; }
figure { margin: 1rem 0; font-size: .85rem; } svg { width: 100%; height: 3rem; display: block; }
.between { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
.clean { fill: var(--clean); background: var(--clean); } .dirty { fill: var(--dirty); background: var(--dirty); }
.active { fill: var(--active); background: var(--active); } .closed { fill: var(--closed); background: var(--closed); }
.segment { stroke: var(--ground); vector-effect: non-scaling-stroke; } .segment.next { stroke: var(--next); stroke-width: 3; }
.key { color: var(--on); padding: .1rem .5rem; border-radius: .25rem; white-space: nowrap; }
@media (max-width: 40rem) { table, tbody, tr, td { display: block; } thead { display: none; }
  tr { border-bottom: 1px solid var(--line); padding: .5rem 0; } td, td.number { border: 0; padding: 0; text-align: left;
  white-space: normal; overflow-wrap: anywhere; } td::before { content: attr(data-label) ": "; color: var(--quiet); } }
"""
