"""The command ``lbdns``: arguments -> one of its commands -> exit status, nothing else."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from lbdns import __version__
from lbdns.errors import LbdnsError

INTERRUPTED: Final = 130  # exit status of a command that Ctrl-C stopped half-way: 128 + SIGINT, as shells have it


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a command is, and its line in the list of commands, so that listing them imports none of them."""

    module: str
    help: str


COMMANDS: Final[Mapping[str, _Entry]] = {
    "serve": _Entry("lbdns.commands.serve", "Answer DNS queries, with an embedded collector."),
    "check": _Entry("lbdns.commands.check", "Read the configuration and say what is in it, or what is wrong with it."),
    "status": _Entry("lbdns.commands.status", "Show the members of a running server: state, score, share of answers."),
    "top": _Entry("lbdns.commands.top", "Watch the members of a running server, live."),
    "watch": _Entry("lbdns.commands.watch", "Print what happens on a running server, as it happens."),
    "explain": _Entry("lbdns.commands.explain", "Tell why the next answer for a name would be what it is."),
    "history": _Entry("lbdns.commands.history", "Show what was: any metric, answers, events; as a table or CSV."),
    "drain": _Entry("lbdns.commands.drain", "Hand a member out no more, until somebody says otherwise."),
    "undrain": _Entry("lbdns.commands.undrain", "Hand a drained member out again."),
    "force": _Entry("lbdns.commands.force", "Have a member be up or down, whatever its reports say."),
    "weight": _Entry("lbdns.commands.weight", "Take a member for larger or smaller than it looks."),
    "reload": _Entry("lbdns.commands.reload", "Have a running server read its configuration again."),
    "keygen": _Entry("lbdns.commands.keygen", "Print a line for a key file."),
    "demo": _Entry("lbdns.commands.demo", "Run everything on the loopback, and print what to try."),
}


#: Looked for and not imported: what it is for, see docs/speed.md
_NATIVE: Final = "installed" if importlib.util.find_spec("lbdns_native") else "not installed"


class _Commands(click.Group):
    """Imports a command when it is called: ``lbdns --version`` must not wait for a DNS library."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has its own --help.",
)
@click.version_option(__version__, prog_name="lbdns", message=f"%(prog)s %(version)s\nnative part: {_NATIVE}")
def lbdns() -> None:
    """A load-aware authoritative DNS server.

    \b
    Examples:
      lbdns demo                            try it: everything on the loopback
      lbdns check -c zones/lbdns.toml       is this configuration good?
      lbdns serve -c /etc/lbdns/lbdns.toml  answer queries
    """


def run(command: click.Command, program: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status. What a person can mend is printed without a traceback.

    ``arguments`` are those of this process if None. Exit status: 0 well, 1 failure while running, 2 bad
    arguments or configuration.
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
    return result if type(result) is int else 0


def main() -> None:
    """The entry point of the program ``lbdns``."""
    sys.exit(run(lbdns, "lbdns"))
