"""Reads the agent's configuration file, and combines it with the command line."""

from __future__ import annotations

import argparse
import functools
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lbdns_agent.configuration.ini_file import Findings, IniSection, parse_ini, suggestion
from lbdns_agent.configuration.metric_section import read_metric
from lbdns_agent.configuration.web_server_section import read_web_server
from lbdns_agent.sources.metric_definition import CommandSource, MetricDefinition
from lbdns_agent.webserver.web_server_options import WebServerOptions
from lbdns_shared.errors import ConfigError

DEFAULT_PATH: Final = Path("/etc/lbdns/agent.conf")
AGENT, WEB_SERVER, METRIC = "agent", "web-server", "metric"
#: Options that make sense only on the command line
COMMAND_LINE_ONLY: Final = frozenset({"help", "version", "config", "once", "json"})
_UNSET: Final = object()


@dataclass(frozen=True)
class AgentConfig:
    """The content of a configuration file. ``values`` maps the attributes of parsed arguments to their values."""

    values: Mapping[str, Any] = field(default_factory=dict)
    web_server: WebServerOptions | None = None
    metrics: tuple[MetricDefinition, ...] = ()


NO_CONFIG: Final = AgentConfig()


def parse_config(text: str, path: str, parser: argparse.ArgumentParser) -> tuple[AgentConfig, Findings]:
    """Return two values: the configuration in ``text``, and all errors in it.

    The keys of the section [agent] are the options of ``parser``.
    """
    findings = Findings(path)
    values: dict[str, Any] = {}
    web_server = None
    metrics: dict[str, MetricDefinition] = {}
    read = parse_ini(text, findings)
    for section in read:
        kind, _, name = section.name.partition(" ")
        if section.name == AGENT:
            values = _read_agent(section, parser)
        elif section.name == WEB_SERVER:
            web_server = read_web_server(section)
        elif kind == METRIC and name.strip():
            metric = read_metric(section, name.strip())
            if metric is not None and metric.name in metrics:
                findings.add(section.line, f"[{section.name}]: this metric is already defined")
            elif metric is not None:
                metrics[metric.name] = metric
        else:
            known = (AGENT, WEB_SERVER, f"{METRIC} NAME")
            findings.add(section.line, f"unknown section [{section.name}]{suggestion(section.name, known, 'sections')}")
    sections = {section.name: section for section in read}
    if WEB_SERVER in sections and "server_status" in values:
        sections[AGENT].wrong("server-status", "can't be combined with the section [web-server]; remove one")
    return AgentConfig(values, web_server, tuple(metrics.values())), findings


def read_config(path: Path, parser: argparse.ArgumentParser) -> AgentConfig:
    """Return the configuration in a file. Raises ConfigError with all errors in the file."""
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            text = file.read()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the configuration file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: the configuration file is not a text file in UTF-8") from None
    config, findings = parse_config(text, str(path), parser)
    if any(isinstance(metric.source, CommandSource) for metric in config.metrics):
        _check_owner(status, path, findings)
    if lines := findings.lines():
        raise ConfigError(*lines)
    return config


def merge(
    parser: argparse.ArgumentParser, words: Sequence[str], default_path: Path = DEFAULT_PATH
) -> tuple[argparse.Namespace, AgentConfig]:
    """Return two values: the arguments, and the configuration file.

    Arguments on the command line override those in the configuration file, which override the defaults. The file is the
    argument of ``--config``, or ``default_path`` if that file exists. Raises ConfigError if the file is invalid, and
    SystemExit if the command line is.
    """
    actions = parser._actions  # argparse has no public list of a parser's options
    unset = {action.dest: _initial(action) for action in actions}
    given = vars(parser.parse_args(words, argparse.Namespace(**unset)))
    given = {name: value for name, value in given.items() if value is not unset.get(name, _UNSET)}
    path = given.get("config") or (default_path if default_path.exists() else None)
    config = read_config(path, parser) if path else NO_CONFIG
    if "server_status" in given:
        config = AgentConfig(config.values, None, config.metrics)
    merged = {**vars(parser.parse_args([])), **config.values, **given}
    return argparse.Namespace(**merged), config


def _initial(action: argparse.Action) -> object:
    """Return the value that an option keeps if it isn't on the command line. For an option that may be repeated, this
    value is None, because argparse appends to it."""
    return None if _may_repeat(action) else _UNSET


def _may_repeat(action: argparse.Action) -> bool:
    return isinstance(action.default, list)


def _read_agent(section: IniSection, parser: argparse.ArgumentParser) -> dict[str, Any]:
    actions = {
        name[2:]: action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--") and name[2:] not in COMMAND_LINE_ONLY
    }
    section.check_keys(actions)
    found = {}
    for key, action in actions.items():
        if key in section.texts:
            found[action.dest] = section.read(key, functools.partial(_convert, action), action.default)
    return found


def _convert(action: argparse.Action, text: str) -> Any:
    """Return the value of an option. Raises ValueError. An option that may be repeated has one value per line."""
    if not text.strip():
        raise ValueError("the value is missing")
    if _may_repeat(action):
        parts = text.replace(",", "\n").splitlines()
        return [_convert_one(action, part.strip()) for part in parts if part.strip()]
    return _convert_one(action, text)


def _convert_one(action: argparse.Action, text: str) -> Any:
    try:
        value = action.type(text) if callable(action.type) else text
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from None
    if action.choices is not None and value not in action.choices:
        raise ValueError(f"must be one of {', '.join(map(str, action.choices))}, not {text!r}")
    return value


def _check_owner(status: os.stat_result, path: Path, findings: Findings) -> None:
    """Add an error if a user other than root and the agent's own user can change a file that contains commands."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022:
        findings.add(
            0, f"mode {mode:04o} lets other users change the file, which contains a command; run 'chmod go-w {path}'"
        )
    if status.st_uid not in (0, os.geteuid()):
        findings.add(
            0,
            f"the file contains a command, but belongs to another user (uid {status.st_uid}); run 'chown root {path}'",
        )
