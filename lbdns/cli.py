"""Run the command ``lbdns``: import and run the requested subcommand, then exit with the subcommand's status."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from typing import Final

import click

from lbdns import __version__
from lbdns.command_line.command_group import SuggestingGroup
from lbdns.command_line.run_command import run

#: Command -> its line in ``lbdns --help``, kept here so that listing the commands imports none of them.
COMMANDS: Final[Mapping[str, str]] = {
    "serve": "Run the DNS server with a built-in collector.",
    "check": "Check a configuration and its zones, and print a summary or all errors.",
    "status": "Show each pool member's state, score and share of answers.",
    "top": "Show a continuously updated view of the pool members.",
    "watch": "Print the events of a running server as they happen.",
    "explain": "Show the member that will be selected for the next query for a name, and explain why.",
    "ask": "Send a DNS query and print the response, like dig.",
    "history": "Print recorded metrics, answers and events as a table, CSV or JSON.",
    "drain": "Stop sending clients to a member until it is undrained.",
    "undrain": "Return a member to rotation.",
    "force": "Treat a member as up or down, regardless of its reports.",
    "weight": "Send a member more or less traffic than its measured capacity warrants.",
    "reload": "Make a running server reload its configuration.",
    "backup": "Write everything that a server keeps to one file, while the server runs.",
    "restore": "Put a backup into the state directory of a stopped server, or list a backup.",
    "init": "Write the configuration, the zone and the key of a new farm.",
    "keygen": "Generate a key and print it in key file format.",
    "demo": "Run a complete farm on the loopback interface and print commands to try.",
}
#: Command -> its module, if the module has another name
_MODULES: Final = dict.fromkeys(("drain", "undrain", "force", "weight"), "drain_force_weight")
#: Whether the native extension is installed, found out without importing it; docs/background/speed.md describes it
_NATIVE: Final = "installed" if importlib.util.find_spec("lbdns_native") else "not installed"


class _LazyCommands(SuggestingGroup):
    """A command group that imports subcommands only when needed, so that ``lbdns --version`` starts quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"lbdns.commands.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Run 'lbdns COMMAND --help' for details on a command.",
)
@click.version_option(__version__, prog_name="lbdns", message=f"%(prog)s %(version)s\nnative extension: {_NATIVE}")
def lbdns() -> None:
    """A load-aware authoritative DNS server.

    \b
    Examples:
      lbdns demo                            run a complete farm on the loopback
      lbdns check -c zones/lbdns.toml       check a configuration
      lbdns serve -c /etc/lbdns/lbdns.toml  answer queries
    """


def main() -> None:
    """Run the program ``lbdns`` and exit with the subcommand's status."""
    sys.exit(run(lbdns, "lbdns"))
