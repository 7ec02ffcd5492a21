"""What the web hosts of the lab serve: WebStone's pages, and CGI programs that print, sleep or compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lbdns_tools.apache import CGI_FOLDER, PAGES_FOLDER
from lbdns_tools.load.mix import WEBSTONE

#: Name -> bytes: the pages of ``mix.file_set``, and the 1 kB page that rates are compared with
PAGES: Final[Mapping[str, int]] = {
    **{f"file{short}.html": size for short, size, _ in WEBSTONE}, "1k.html": 1024, "index.html": 500,
}  # fmt: skip
MOST_WORK_MS: Final = 10_000  # of CPU time that one request may ask for

_HEAD: Final = "<!DOCTYPE html>\n<html><head><title>{size} bytes</title></head><body>\n"
_TAIL: Final = "</body></html>\n"
_LINE: Final = "<p>One ring to rule them all, one ring to find them, one ring to bring them all.</p>\n"

# The query is only ever compared: no part of it becomes a word of the shell that wasn't one of these patterns before.
# cat takes the place of the shell, so that a request is one fork and two execs, as a CGI program of 1999 in sh was.
_FILE: Final = """\
#!/bin/sh
case $QUERY_STRING in
{cases}
*)
    printf 'Status: 404 Not Found\\nContent-Type: text/plain\\n\\nNo page has that size; size={first} is one\\n'
    exit
    ;;
esac
printf 'Content-Type: text/html\\nContent-Length: %s\\n\\n' "${{QUERY_STRING#size=}}"
exec cat "$DOCUMENT_ROOT/$page"
"""
_SLEEP: Final = """\
#!/bin/sh
case ${QUERY_STRING#s=} in
[0-9] | [0-9].[0-9] | [0-9].[0-9][0-9] | [0-9].[0-9][0-9][0-9]) ;;
*)
    printf 'Status: 404 Not Found\\nContent-Type: text/plain\\n\\nAsk for s=0 to s=9.999, seconds\\n'
    exit
    ;;
esac
sleep "${QUERY_STRING#s=}"
printf 'Content-Type: text/plain\\nContent-Length: 6\\n\\nslept\\n'
"""
# POSIX::clock counts all CPU time of the process since it was forked, in microseconds (clock(3)); perl's own times()
# counts ticks of 10 ms. Loading POSIX costs some ms, which are part of what was asked for.
_WORK: Final = """\
#!/usr/bin/perl
use POSIX ();
my ($ms) = ($ENV{{QUERY_STRING}} // '') =~ /\\Ams=([0-9]{{1,5}})\\z/a;
if (!defined $ms || $ms > {most}) {{
    print "Status: 404 Not Found\\nContent-Type: text/plain\\n\\nAsk for ms=0 to ms={most}, ms of CPU time\\n";
    exit;
}}
my $sum = 0;
while (POSIX::clock() < 1000 * $ms) {{
    $sum += $_ for 1 .. 1000;
}}
print "Content-Type: text/plain\\nContent-Length: 7\\n\\nworked\\n";
"""


def page(size: int) -> str:
    """A page of exactly ``size`` bytes, all of them ASCII. Raises ValueError for one that is too small to be one."""
    head = _HEAD.format(size=size)
    room = size - len(head) - len(_TAIL)
    if room < 0:
        raise ValueError(f"a page of {size} bytes: it takes {size - room} at least")
    lines, rest = divmod(room, len(_LINE))
    return head + _LINE * lines + " " * rest + _TAIL


def programs() -> dict[str, str]:
    """The CGI programs by name: ``file?size=BYTES``, ``sleep?s=SECONDS``, ``work?ms=MILLISECONDS of CPU time``."""
    by_size = {size: name for name, size in sorted(PAGES.items(), reverse=True)}
    cases = "\n".join(f"size={size}) page={name} ;;" for size, name in sorted(by_size.items()))
    return {
        "file": _FILE.format(cases=cases, first=min(by_size)),
        "sleep": _SLEEP,
        "work": _WORK.format(most=MOST_WORK_MS),
    }


def write_content(folder: Path) -> None:
    """Write everything below ``folder``, readable by everybody: web servers serve as a user of their own."""
    for name, mode, files in (
        (PAGES_FOLDER, 0o644, {name: page(size) for name, size in PAGES.items()}),
        (CGI_FOLDER, 0o755, programs()),
    ):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            path = folder / name / file
            path.write_text(text, "ascii")
            path.chmod(mode)
        (folder / name).chmod(0o755)
    folder.chmod(0o755)
