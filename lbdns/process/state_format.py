"""The format number of the state directory: an older lbdns refuses to start with files that it would misread.

The file ``state-format`` contains the number as JSON. The maintainer script of the Debian package reads it too.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Final

from lbdns.process.atomic_file import replace_file
from lbdns_shared import __version__
from lbdns_shared.errors import ConfigError

FILE_NAME: Final = "state-format"  # in [server] state_dir
#: Increase this number whenever lbdns writes a state file that the version before cannot read. Every version of lbdns
#: must read all formats up to its own
FORMAT: Final = 1


def check_state_format(folder: Path) -> None:
    """Check that this version can read the files in the state directory ``folder``.

    A missing or unreadable file is accepted, because the server must answer queries even if its disk is damaged. The
    function blocks on disk I/O. Raises ConfigError if a newer version has written files in a newer format.
    """
    found, program = read_state_format(folder)
    if found > FORMAT:
        raise ConfigError(
            f"{folder / FILE_NAME}: lbdns {program} has written the files in {folder} in format {found}, but lbdns "
            f"{__version__} reads formats up to {FORMAT}. Install lbdns {program} again, or move the files elsewhere "
            "to start without overrides, joined members or history"
        )


def record_state_format(folder: Path) -> None:
    """Write this version's format number to the state directory, unless this number or a higher one is there already.

    Call this function before writing any other state file. The function blocks on disk I/O. An error is ignored here,
    because the program reports it when it writes another state file.
    """
    if read_state_format(folder)[0] < FORMAT:
        with contextlib.suppress(OSError):
            replace_file(folder / FILE_NAME, json.dumps({"format": FORMAT, "program": __version__}) + "\n", sync=True)


def read_state_format(folder: Path) -> tuple[int, str]:
    """Return the format number of the directory, or 0 if there is none, and the version of lbdns that wrote it."""
    try:
        document: Any = json.loads((folder / FILE_NAME).read_bytes())
        number, program = document["format"], str(document["program"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return 0, ""
    return (number, program) if type(number) is int else (0, "")
