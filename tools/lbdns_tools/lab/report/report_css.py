"""The style sheet (CSS) of the report page, with light and dark modes, for desktop, phone and print."""

from __future__ import annotations

from typing import Final

CSS: Final = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b2027; --soft: #56606b; --line: #dde1e6; --edge: #b4bcc5; --tint: #f4f6f8; --link: #00598c;
  --bad: #9f2d00; --bad-tint: #fdf1ea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15191e; --ink: #d8dde3; --soft: #98a2ad; --line: #343b44; --edge: #5a646f; --tint: #1d232a;
    --link: #6bbbee; --bad: #ff9f73; --bad-tint: #33221a;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body {
  margin: 0; padding: 0 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; -webkit-text-size-adjust: 100%;
}
header, main, nav { max-width: 52rem; margin: 0 auto; }
header { padding: 2.5rem 0 1rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; text-wrap: balance; }
h2 {
  font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line);
}
h3 { font-size: 1rem; margin: 1.75rem 0 .25rem; }
p { margin: 0 0 .9rem; max-width: 42rem; }
header p { color: var(--soft); margin: 0; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: .15em; }
nav { font-size: .95rem; }
nav h2 { font-size: .95rem; margin: 1rem 0 .25rem; padding: 0; border: 0; color: var(--soft); font-weight: 600; }
nav ol { margin: 0; padding-left: 1.4rem; }
nav li::marker { color: var(--soft); }
.trouble { border-left: 4px solid var(--bad); background: var(--bad-tint); padding: .75rem 1rem; margin: 1.25rem 0; }
.trouble p, .trouble ul { margin: 0; }
.trouble ul { padding-left: 1.2rem; }
/* A shadow at each edge beyond which the table continues: the shadow stays, its cover scrolls with the table */
.scroll {
  overflow-x: auto; margin: 0 0 1.75rem; background-repeat: no-repeat;
  background-image:
    linear-gradient(to right, var(--paper) 40%, transparent), linear-gradient(to left, var(--paper) 40%, transparent),
    linear-gradient(to right, var(--edge), transparent), linear-gradient(to left, var(--edge), transparent);
  background-position: left, right, left, right;
  background-size: 3rem 100%, 3rem 100%, 1rem 100%, 1rem 100%;
  background-attachment: local, local, scroll, scroll;
}
table {
  border-collapse: collapse; font-size: .875rem; line-height: 1.4; font-variant-numeric: tabular-nums lining-nums;
}
.caption { color: var(--soft); font-size: .9rem; margin: 1.25rem 0 .35rem; }
th, td { padding: .3rem .6rem; text-align: left; vertical-align: baseline; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th, thead .n { white-space: normal; }
thead th { font-weight: 600; border-bottom: 1.5px solid var(--soft); vertical-align: bottom; }
tbody th { font-weight: inherit; }
tbody tr { border-bottom: 1px solid var(--line); }
tbody tr.next { border-top: 2px solid var(--edge); }
tbody tr:hover { background: var(--tint); }
.n { text-align: right; white-space: nowrap; }
.none { color: var(--soft); cursor: help; }
figure { margin: 1.5rem 0 2rem; }
figure .wide { overflow-x: auto; }
figure img { display: block; max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .4rem; max-width: 42rem; }
@media (max-width: 40rem) {
  body { padding: 0 1rem 3rem; }
  header { padding-top: 1.5rem; }
  h1 { font-size: 1.5rem; }
  /* Text in pictures stays readable: a picture is wider than the screen and scrolls */
  figure img { max-width: none; width: 36rem; }
}
@media (min-width: 78rem) {
  body { display: grid; grid-template-columns: 1fr 15rem 52rem 1fr; column-gap: 3rem; }
  header, main { grid-column: 3; margin: 0; width: 100%; min-width: 0; }
  nav { grid-column: 2; grid-row: 1 / span 2; margin: 0; padding-top: 1.6rem; }
  nav > div { position: sticky; top: 1.5rem; max-height: calc(100vh - 3rem); overflow-y: auto; }
}
@media print {
  @page { margin: 18mm 16mm; }
  body { display: block; padding: 0; font-size: 10pt; }
  header { padding-top: 0; }
  header, main, nav { max-width: none; }
  nav { break-after: auto; }
  a { color: inherit; text-decoration: none; }
  h2, h3, .caption, thead { break-after: avoid; }
  figure, tr, .trouble { break-inside: avoid; }
  .scroll, figure .wide { overflow: visible; background: none; }
  table { font-size: 8.5pt; }
  figure img { width: auto; max-width: 100%; }
}
"""
