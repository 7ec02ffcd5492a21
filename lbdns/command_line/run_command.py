"""Run a click command as a program: print errors that a user can fix, and return the exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from lbdns_shared import log
from lbdns_shared.errors import LbdnsError

INTERRUPTED: Final = 130  # exit status after Ctrl-C: 128 + SIGINT, as shells report it


def run(command: click.Command, program: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Errors that a user can fix are printed without a traceback.

    ``arguments`` defaults to the command-line arguments of this process. Exit status: 0 on success, 1 on a runtime
    failure, 2 on invalid arguments or an invalid configuration.
    """
    try:
        result: Any = command.main(arguments, prog_name=program, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except LbdnsError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    finally:
        log.finish()
    return result if type(result) is int else 0
