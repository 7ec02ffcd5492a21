"""The command ``lbdns``: find the subcommand, run it, exit with its status."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import click

from lbdns import __version__
from lbdns.command_line.run_command import run


@dataclass(frozen=True, slots=True)
class _Entry:
    """The module of a command, and its line in the list of commands, so that listing commands imports none of them."""

    module: str
    help: str


COMMANDS: Final[Mapping[str, _Entry]] = {
    "serve": _Entry("lbdns.commands.serve", "Answer DNS queries, with an embedded collector."),
    "check": _Entry("lbdns.commands.check", "Check a configuration and its zones; print a summary, or every error."),
    "status": _Entry("lbdns.commands.status", "Show the members of a running server: state, score, share of answers."),
    "top": _Entry("lbdns.commands.top", "Watch the members of a running server, live."),
    "watch": _Entry("lbdns.commands.watch", "Print what happens on a running server, as it happens."),
    "explain": _Entry("lbdns.commands.explain", "Explain which member the next answer for a name selects, and why."),
    "ask": _Entry("lbdns.commands.ask", "Send a DNS query and print the response, on machines without dig."),
    "history": _Entry("lbdns.commands.history", "Print recorded metrics, answers and events, as a table or CSV."),
    "drain": _Entry("lbdns.commands.drain", "Stop sending clients to a member until it is undrained."),
    "undrain": _Entry("lbdns.commands.undrain", "Return a member to rotation."),
    "force": _Entry("lbdns.commands.force", "Treat a member as up or down, whatever its reports say."),
    "weight": _Entry("lbdns.commands.weight", "Give a member more or less than its measured share."),
    "reload": _Entry("lbdns.commands.reload", "Make a running server reread its configuration."),
    "keygen": _Entry("lbdns.commands.keygen", "Print a line for a key file."),
    "demo": _Entry("lbdns.commands.demo", "Run a complete farm on the loopback interface, and print what to try."),
}


#: Found but not imported; docs/background/speed.md says what it is for
_NATIVE: Final = "installed" if importlib.util.find_spec("lbdns_native") else "not installed"


class _LazyCommands(click.Group):
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
    cls=_LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has its own --help.",
)
@click.version_option(__version__, prog_name="lbdns", message=f"%(prog)s %(version)s\nnative part: {_NATIVE}")
def lbdns() -> None:
    """A load-aware authoritative DNS server.

    \b
    Examples:
      lbdns demo                            try it: everything on the loopback
      lbdns check -c zones/lbdns.toml       check a configuration
      lbdns serve -c /etc/lbdns/lbdns.toml  answer queries
    """


def main() -> None:
    """The entry point of the program ``lbdns``."""
    sys.exit(run(lbdns, "lbdns"))
