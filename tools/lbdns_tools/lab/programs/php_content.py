"""Writes the PHP page of the caches' measurements: a program that is long to compile and computes its content.

The page stands for a page of a content management system, whose time goes to compiling many lines, to computing the
content, and to the rest. With ``?cache=memcached``, the content comes from memcached on the same host.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lbdns_tools.apache_process import PHP, PHP_FOLDER, PHP_UNCACHED

#: The three kinds of the page, by name: no cache, the opcode cache only, and memcached too
UNCACHED, OPCODE, MEMCACHED = "no cache", "opcode cache", "memcached"
PAGES: Final = {
    UNCACHED: f"{PHP_UNCACHED}/page.php", OPCODE: f"{PHP}/page.php", MEMCACHED: f"{PHP}/page.php?cache=memcached",
}  # fmt: skip
SIZE: Final = 5000  # bytes of the page
#: Functions in the library that each request includes, and rounds of hashing for the content and for the rest. They are
#: chosen so that compiling, content and the rest take 29, 54 and 17 % of the time, as in the study of 2012
FUNCTIONS: Final = 850
ROUNDS: Final = 9500
REST_ROUNDS: Final = 2600
_OLD: Final = 1e9  # Unix time
_LIBRARY_FUNCTION: Final = """\
function part{number}($value, $others) {{
    $found = array();
    foreach ($others as $name => $other) {{
        if ($other > $value && strlen($name) > {number}) {{
            $found[$name] = sprintf('%d is above %d in part {number}', $other, $value);
        }}
    }}
    return implode(', ', $found);
}}
"""
_PAGE: Final = """\
<?php
require __DIR__ . '/library.php';

function hashed($line, $rounds) {{
    for ($round = 0; $round < $rounds; $round++) {{
        $line = hash('sha256', $line . $round);
    }}
    return $line;
}}

function content() {{
    $line = hashed('content', {rounds});
    return str_pad("<!DOCTYPE html><html><body><p>$line</p></body></html>", {size});
}}

$memcached = null;
$content = false;
if (($_GET['cache'] ?? '') === 'memcached') {{
    $memcached = new Memcached('lbdns');
    if (!$memcached->getServerList()) {{
        $memcached->addServer('127.0.0.1', 11211);
    }}
    $content = $memcached->get('page');
}}
$source = $content === false ? 'computed' : 'memcached';
if ($content === false) {{
    $content = content();
    if ($memcached) {{
        $memcached->set('page', $content, 600);
    }}
}}
header("X-Content: $source");
header('X-Rest: ' . hashed('rest', {rest_rounds}));
header('Content-Length: ' . strlen($content));
echo $content;
"""


def write_php(folder: Path) -> None:
    """Write the PHP programs below ``folder``, an Apache's content. All users can read the files."""
    programs = folder / PHP_FOLDER
    programs.mkdir(parents=True, exist_ok=True)
    library = "<?php\n" + "".join(_LIBRARY_FUNCTION.format(number=number) for number in range(FUNCTIONS))
    page = _PAGE.format(rounds=ROUNDS, rest_rounds=REST_ROUNDS, size=SIZE)
    for name, text in {"library.php": library, "page.php": page}.items():
        path = programs / name
        path.write_text(text, "ascii")
        path.chmod(0o644)
        # The opcode cache leaves out files that have changed within the last seconds
        os.utime(path, (_OLD, _OLD))
    programs.chmod(0o755)


def memcached_command() -> tuple[str, ...]:
    """Return the command that runs memcached on a host, for programs on the same host."""
    return "memcached", "-u", "www-data", "-l", "127.0.0.1", "-p", "11211", "-m", "16", "-t", "1"
