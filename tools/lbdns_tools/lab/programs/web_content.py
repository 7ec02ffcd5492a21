"""Writes the pages and CGI programs of a lab's web hosts, including WebStone's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lbdns_tools.apache_process import CGI_FOLDER, PAGES_FOLDER
from lbdns_tools.load.request_mix import WEBSTONE

#: Size of each page in bytes: the pages of ``request_mix.file_set``, and the 1 kB page of studies that compare rates
PAGES: Final[Mapping[str, int]] = {
    **{f"file{short}.html": size for short, size, _ in WEBSTONE}, "1k.html": 1024, "index.html": 500,
}  # fmt: skip
FOLDER: Final = "content"  # in a lab's folder; all of its web hosts serve this content
MOST_WORK_MS: Final = 10_000  # the most CPU time that one request may use

_HEAD: Final = "<!DOCTYPE html>\n<html><head><title>{size} bytes</title></head><body>\n"
_TAIL: Final = "</body></html>\n"
_LINE: Final = "<p>One ring to rule them all, one ring to find them, one ring to bring them all.</p>\n"

# The query is only compared with fixed patterns, so no text from a client reaches the shell as a word. cat replaces the
# shell, so that a request costs one fork and two execs, like a CGI shell script of 1999.
_FILE: Final = """\
#!/bin/sh
case $QUERY_STRING in
{cases}
*)
    printf 'Status: 404 Not Found\\nContent-Type: text/plain\\n\\nNo page has this size; try size={first}\\n'
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
    printf 'Status: 404 Not Found\\nContent-Type: text/plain\\n\\ns must be 0 to 9.999 (seconds)\\n'
    exit
    ;;
esac
sleep "${QUERY_STRING#s=}"
printf 'Content-Type: text/plain\\nContent-Length: 6\\n\\nslept\\n'
"""
# POSIX::clock counts the CPU time of the process since its fork, in microseconds (clock(3)); perl's own times() counts
# ticks of 10 ms. Loading POSIX takes some ms, which count towards the requested time.
_WORK: Final = """\
#!/usr/bin/perl
use POSIX ();
my ($ms) = ($ENV{{QUERY_STRING}} // '') =~ /\\Ams=([0-9]{{1,5}})\\z/a;
if (!defined $ms || $ms > {most}) {{
    print "Status: 404 Not Found\\nContent-Type: text/plain\\n\\nms must be 0 to {most} (ms of CPU time)\\n";
    exit;
}}
my $sum = 0;
while (POSIX::clock() < 1000 * $ms) {{
    $sum += $_ for 1 .. 1000;
}}
print "Content-Type: text/plain\\nContent-Length: 7\\n\\nworked\\n";
"""


def page(size: int) -> str:
    """Return an HTML page of exactly ``size`` bytes of ASCII text. Raises ValueError if ``size`` is too small."""
    head = _HEAD.format(size=size)
    room = size - len(head) - len(_TAIL)
    if room < 0:
        raise ValueError(f"a page must have at least {size - room} bytes, not {size}")
    lines, rest = divmod(room, len(_LINE))
    return head + _LINE * lines + " " * rest + _TAIL


def programs() -> dict[str, str]:
    """Return the texts of the CGI programs, keyed by file name.

    The programs handle the requests ``file?size=BYTES``, ``sleep?s=SECONDS`` and ``work?ms=CPU_MILLISECONDS``.
    """
    by_size = {size: name for name, size in sorted(PAGES.items(), reverse=True)}
    cases = "\n".join(f"size={size}) page={name} ;;" for size, name in sorted(by_size.items()))
    return {
        "file": _FILE.format(cases=cases, first=min(by_size)),
        "sleep": _SLEEP,
        "work": _WORK.format(most=MOST_WORK_MS),
    }


def write_content(folder: Path) -> None:
    """Write all pages and CGI programs to ``folder``. All users can read the files, because Apache drops its
    privileges."""
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
