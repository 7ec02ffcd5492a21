"""``lbdns-scaler run`` and ``plan``: scale a farm, or print what would be done now and why."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import click

from lbdns.command_line.common_options import file_option, log_options
from lbdns.config.service_credentials import CREDENTIALS
from lbdns_shared import log
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.scaler.running.scaler_loop import ScalerLoop
from lbdns_tools.scaler.running.scaler_program import ScalerProgram, run_program
from lbdns_tools.scaler.running.scaler_status import status_document
from lbdns_tools.scaler.running.terminal_view import PROGRESS_HEADING, plan_text, progress_line
from lbdns_tools.scaler.settings.scaler_settings import DEFAULT_FILE, ScalerSettings, load_settings

BETWEEN: Final = 2.0  # seconds between the two readings of `plan`, from which the rate follows
#: The option ``-c`` for scaler.toml
scaler_config_option: Final = file_option(DEFAULT_FILE, "LBDNS_SCALER_CONFIG")


def settings_of(config: Path, alternative: str = "") -> ScalerSettings:
    """Read the file that ``-c`` names. Raises ConfigError.

    If the default file does not exist, the error message suggests ``-c`` and, if given, ``alternative``.
    """
    if str(config) == DEFAULT_FILE and not config.exists():
        more = f", {alternative}" if alternative else ""
        raise ConfigError(f"{config}: the file does not exist; name another file with -c{more}")
    return load_settings(config)


@click.command()
@scaler_config_option
@click.option("--dry-run", is_flag=True, help="Log each decision without changing anything.")
@log_options
def run(config: Path, dry_run: bool, log_format: str, log_level: str) -> None:
    """Scale the farm until SIGTERM or SIGINT arrives. The servers then continue to run.

    On a terminal, a line per decision shows the demand and the servers.

    A restarted scaler continues where it stopped, even after a crash: it knows its servers from the provider, and its
    past from the CSV file.

    \b
    Examples:
      lbdns-scaler run -c /etc/lbdns/scaler.toml
      lbdns-scaler run --dry-run
    """
    log.set_up(log_format, log_level)
    CREDENTIALS.use(os.environ)
    program = ScalerProgram(settings_of(config), dry_run)
    if sys.stdout.isatty():
        print(f"    time  {PROGRESS_HEADING}", flush=True)
        # One write, so that no line of the log begins in the middle
        program.loop.on_decision = lambda: print(f"{_progress(program.loop)}\n", end="", flush=True)
    asyncio.run(run_program(program))


def _progress(loop: ScalerLoop) -> str:
    return f"{time.strftime('%H:%M:%S')}  {progress_line(status_document(loop, time.time()))}"


@click.command()
@scaler_config_option
@click.option("--json", "json_output", is_flag=True, help="Print the plan as JSON.")
def plan(config: Path, json_output: bool) -> None:
    """Print what the scaler would do now, and why, without changing anything.

    \b
    Example:
      lbdns-scaler plan -c /etc/lbdns/scaler.toml
    """
    log.set_up("text", "error")  # warnings about what cannot be observed would repeat the error
    program = ScalerProgram(settings_of(config), dry_run=True)
    document = asyncio.run(_decide(program))
    print(json.dumps(document, indent=2) if json_output else plan_text(document))


async def _decide(program: ScalerProgram) -> dict[str, Any]:
    loop = program.loop
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(program.close)
        await loop.fleet.look()
        if loop.fleet.trouble:
            raise LbdnsError(loop.fleet.trouble)
        await loop.measure()
        await asyncio.sleep(BETWEEN)
        if await loop.decide() is None:
            raise LbdnsError(loop.trouble)
        return status_document(loop, time.time())
