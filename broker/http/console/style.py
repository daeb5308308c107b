"""The console's one style sheet: light and dark by what the reader's system says, small screens, colours with contrast.

Sections of a log have the same colour everywhere. Text has a contrast of 4.5 or more on the ground, on cards and on every
section; lines of charts and borders of inputs 3 or more.
"""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ground: #f6f8fa; --card: #ffffff; --text: #1a1f24; --quiet: #57606a; --line: #d5dae0;
  --edge: #7c858f; --link: #0a58a8; --good: #17632f; --warn: #7a4a00; --bad: #a40e26; --goodtint: #e2f3e6; --warntint: #fcf0d8;
  --badtint: #fce8ea; --one: #0a66c2; --two: #b4530a; --three: #6b3fa0;
  --clean: #b7dfc2; --dirty: #f3d19c; --active: #b9d4f5; --closed: #d6dae0; --next: #a40e26; --on: #1a1f24; }
@media (prefers-color-scheme: dark) { :root { --ground: #11151a; --card: #191f26; --text: #e6eaee; --quiet: #9da7b2;
  --line: #303944;
  --edge: #717c88; --link: #7ab7ff; --good: #7fd49a; --warn: #eeb95e; --bad: #ff8f9c; --goodtint: #17301f; --warntint: #33280f;
  --badtint: #3a1a20; --one: #62a8f5; --two: #e8954a; --three: #b79af0;
  --clean: #2b6a40; --dirty: #7d5410; --active: #265a94; --closed: #454e58; --next: #ff8f9c; --on: #ffffff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); font: .9375rem/1.5 system-ui, sans-serif; }
a { color: var(--link); text-underline-offset: .15em; text-decoration-thickness: .06em; }
a:hover { text-decoration-thickness: .12em; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: .15rem; }
main:focus-visible { outline: none; }
code, pre, .mono { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, "Liberation Mono", monospace;
  font-size: .93em; }
.skip:focus { display: block; padding: .5rem 1rem; }
.unseen, .skip:not(:focus) { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1.5rem; padding: .6rem 1.25rem; background: var(--card);
  border-bottom: 1px solid var(--line); }
.brand { font-weight: 700; font-size: 1.1rem; color: var(--text); text-decoration: none; letter-spacing: -.01em; }
header ul { display: flex; flex-wrap: wrap; gap: .1rem .25rem; list-style: none; margin: 0; padding: 0; }
header li a { display: block; padding: .3rem .6rem; border-radius: .35rem; color: var(--quiet); text-decoration: none; }
header li a:hover { color: var(--text); background: var(--ground); }
header li a[aria-current] { color: var(--text); background: var(--ground); font-weight: 600; }
main { max-width: 80rem; margin: 0 auto; padding: 1rem 1.25rem 2rem; }
footer { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; max-width: 80rem; margin: 0 auto; padding: 0 1.25rem 1.5rem;
  color: var(--quiet); font-size: .85rem; }
h1 { font-size: 1.45rem; line-height: 1.25; margin: .25rem 0 .75rem; overflow-wrap: anywhere; letter-spacing: -.01em; }
h2 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; overflow-wrap: anywhere; } h3 { font-size: .95rem; margin: 1rem 0 .25rem;
  overflow-wrap: anywhere; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
.crumbs { font-size: .85rem; overflow-wrap: anywhere; } .small { font-size: .85rem; } .quiet, small { color: var(--quiet); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 1rem; margin: 1rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1.1rem; margin: 1rem 0;
  min-width: 0; }
.cards .card { margin: 0; } .card > h2:first-child { margin-top: 0; } .card h2 a { font-weight: 400; font-size: .85rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(13rem, 100%), 1fr)); gap: .6rem 1.25rem;
  margin: .5rem 0; }
.facts div { min-width: 0; } .facts dt { color: var(--quiet); font-size: .82rem; }
.facts dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.note { border-left: 4px solid var(--edge); background: var(--card); padding: .5rem .8rem; border-radius: 0 .35rem .35rem 0; }
.note.good { border-color: var(--good); background: var(--goodtint); } .note.warn { border-color: var(--warn);
  background: var(--warntint); }
.note.bad { border-color: var(--bad); background: var(--badtint); }
.badge { display: inline-block; padding: 0 .45rem; border-radius: .3rem; font-size: .85em; white-space: nowrap;
  border: 1px solid var(--line); }
.badge.good { color: var(--good); background: var(--goodtint); border-color: transparent; }
.badge.warn { color: var(--warn); background: var(--warntint); border-color: transparent; }
.badge.bad { color: var(--bad); background: var(--badtint); border-color: transparent; }
.badge.clean, .badge.dirty, .badge.active, .badge.closed { color: var(--on); border-color: transparent; }
.wide { overflow-x: auto; position: relative; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; } tbody tr:last-child td { border-bottom: 0; }
th { color: var(--quiet); font-weight: 600; font-size: .82rem; vertical-align: bottom; } td { overflow-wrap: anywhere;
  min-width: 5rem; }
tbody tr:hover td { background: color-mix(in srgb, var(--line) 22%, transparent); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; min-width: 0; }
.one-line { white-space: nowrap; }
td:not(.number):has(> a, > .data) { min-width: 8rem; }
figure { margin: .75rem 0; font-size: .85rem; } svg { width: 100%; height: 3rem; display: block; }
svg.chart { height: 6.5rem; background: var(--card); border-bottom: 1px solid var(--edge); }
.chart line { stroke: var(--line); vector-effect: non-scaling-stroke; }
.chart polyline { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.chart .one { stroke: var(--one); } .chart .two { stroke: var(--two); stroke-dasharray: 6 3; } .chart .three {
  stroke: var(--three); stroke-dasharray: 2 3; }
.swatch { display: inline-block; width: 1.4rem; border-top: 3px solid; vertical-align: .25em; margin-right: .35rem; }
.swatch.one { border-color: var(--one); } .swatch.two { border-color: var(--two); border-top-style: dashed; }
.swatch.three { border-color: var(--three); border-top-style: dotted; }
.between { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; color: var(--quiet); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.25rem; margin: 0 0 .35rem; }
.clean { fill: var(--clean); background: var(--clean); } .dirty { fill: var(--dirty); background: var(--dirty); }
.active { fill: var(--active); background: var(--active); } .closed { fill: var(--closed); background: var(--closed); }
.segment { stroke: var(--card); vector-effect: non-scaling-stroke; } .segment.next { stroke: var(--next); stroke-width: 3; }
.key { color: var(--on); padding: .1rem .5rem; border-radius: .25rem; white-space: nowrap; }
progress { width: 100%; max-width: 20rem; height: .7rem; accent-color: var(--one); }
.bar { display: flex; flex-wrap: wrap; align-items: end; gap: .5rem 1rem; margin: .75rem 0; }
.bar .field { margin: 0; min-width: 0; max-width: 100%; }
.field label { display: block; font-size: .82rem; color: var(--quiet); } .field small { display: block; }
input, select, textarea, button, .button { font: inherit; color: var(--text); background: var(--card);
  border: 1px solid var(--edge);
  border-radius: .35rem; padding: .3rem .55rem; max-width: 100%; }
input[type=checkbox] { width: 1.1rem; height: 1.1rem; vertical-align: -.15em; }
button, .button { cursor: pointer; background: var(--ground); text-decoration: none; display: inline-block; }
button:hover, .button:hover { border-color: var(--text); }
button.act { background: var(--bad); border-color: var(--bad); color: var(--card); font-weight: 600; }
.buttons { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: .75rem 0; }
pre { margin: .35rem 0; padding: .6rem .75rem; background: var(--ground); border: 1px solid var(--line); border-radius: .35rem;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 40rem; overflow-y: auto; }
.data { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; } td .data { max-width: 46rem;
  display: inline-block; }
.pager { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .75rem 0; }
details summary { cursor: pointer; color: var(--link); }
@media (max-width: 44rem) { main { padding: .75rem .9rem 1.5rem; } header { padding: .5rem .9rem; } footer {
  padding: 0 .9rem 1rem; }
  header li a { padding: .3rem .4rem; } .facts { grid-template-columns: repeat(auto-fill, minmax(min(8.5rem, 100%), 1fr)); }
  table, tbody, tr, td { display: block; } thead { display: none; } tr { border-bottom: 1px solid var(--line);
  padding: .5rem 0; }
  tbody tr:last-child { border-bottom: 0; } tbody tr:hover td { background: none; }
  td, td.number { border: 0; padding: .05rem 0; text-align: left; white-space: normal; overflow-wrap: anywhere; }
  .one-line { white-space: normal; } td:not(.number):has(> a, > .data) { min-width: 0; }
  td:empty { display: none; } td[data-label]::before { content: attr(data-label) ": "; color: var(--quiet); } }
"""
