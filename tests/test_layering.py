"""The import rules of the house, checked on every module; and the checker itself, shown able to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layering import Module, Rule, broken, cycles, modules_of, read_sources

ROOT = Path(__file__).parent.parent

RULES = {
    "answers and plans are made of arguments alone": Rule(
        of=("lbdns.answering", "lbdns.policies"),
        forbidden=("asyncio", "socket", "time", "random", "threading", "os", "logging"),
    ),
    "the agent takes little from the server's package": Rule(
        of=("lbdns_agent",),
        allowed_of="lbdns",
        allowed=("lbdns.report", "lbdns.errors", "lbdns.keys", "lbdns.endpoint", "lbdns.log"),
    ),
    "the agent stays light": Rule(
        of=("lbdns_agent",),
        forbidden=(
            "asyncio", "aiohttp", "psutil", "http.client", "urllib.request",
            "click", "rich", "dns", "lbdns_collector",
        ),
    ),
    "what the collector knows is made of arguments alone": Rule(
        of=("lbdns_collector.score", "lbdns_collector.adaptive", "lbdns_collector.table", "lbdns_collector.status"),
        forbidden=("asyncio", "socket", "time"),
    ),
    "only what starts things knows the collector": Rule(
        of=("lbdns",),
        forbidden=("lbdns_collector",),
        exempt=("lbdns.server", "lbdns.commands", "lbdns.demo"),
    ),
    "the agent is a program of its own": Rule(of=("lbdns", "lbdns_collector"), forbidden=("lbdns_agent",)),
    "nothing stands on the tools": Rule(of=("lbdns", "lbdns_agent", "lbdns_collector"), forbidden=("lbdns_tools",)),
}  # fmt: skip


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    folders = {
        "lbdns": ROOT / "lbdns",
        "lbdns_agent": ROOT / "agent" / "lbdns_agent",
        "lbdns_collector": ROOT / "collector" / "lbdns_collector",
        "lbdns_tools": ROOT / "tools" / "lbdns_tools",
    }
    return modules_of(read_sources(folders))


@pytest.mark.parametrize("name", RULES)
def test_rule_is_kept(name: str, modules: dict[str, Module]) -> None:
    assert broken(RULES[name], modules) == []


@pytest.mark.parametrize("name", RULES)
def test_rule_binds_modules_that_exist(name: str, modules: dict[str, Module]) -> None:
    for place in (*RULES[name].of, *RULES[name].exempt, *(RULES[name].allowed or ())):
        assert any(module == place or module.startswith(f"{place}.") for module in modules), place


def test_no_import_cycles(modules: dict[str, Module]) -> None:
    assert cycles(modules) == []


BREACHES = [
    ("answers and plans are made of arguments alone", {"lbdns.answering.x": "import asyncio"}),
    ("answers and plans are made of arguments alone", {"lbdns.answering": "from socket import AF_INET"}),
    ("answers and plans are made of arguments alone", {"lbdns.policies.x": "def f():\n    from time import time"}),
    ("answers and plans are made of arguments alone", {"lbdns.policies.x": "import random as r"}),
    ("answers and plans are made of arguments alone", {"lbdns.policies.x": "import os.path"}),
    ("answers and plans are made of arguments alone", {"lbdns.policies.x": "import logging, threading"}),
    (
        "answers and plans are made of arguments alone",
        {"lbdns.policies.x": "from ..farm import f", "lbdns.farm": "import time"},
    ),
    ("the agent takes little from the server's package", {"lbdns_agent.x": "from lbdns import farm", "lbdns.farm": ""}),
    ("the agent takes little from the server's package", {"lbdns_agent": "import lbdns.farm", "lbdns.farm": ""}),
    ("the agent stays light", {"lbdns_agent.x": "from http import client"}),
    ("the agent stays light", {"lbdns_agent.x": "import urllib.request"}),
    ("the agent stays light", {"lbdns_agent.x": "import psutil"}),
    ("the agent stays light", {"lbdns_agent.x": "if True:\n    import asyncio"}),
    ("the agent stays light", {"lbdns_agent.x": "import lbdns.log", "lbdns.log": "import aiohttp"}),
    ("what the collector knows is made of arguments alone", {"lbdns_collector.table": "import time"}),
    ("what the collector knows is made of arguments alone", {"lbdns_collector.score": "import asyncio"}),
    ("what the collector knows is made of arguments alone", {"lbdns_collector.status": "import socket"}),
    ("only what starts things knows the collector", {"lbdns.farm": "import lbdns_collector.table"}),
    (
        "only what starts things knows the collector",
        {"lbdns.farm": "from lbdns.server import run", "lbdns.server.run": "import lbdns_collector"},
    ),
    ("the agent is a program of its own", {"lbdns_collector.x": "from lbdns_agent import cli"}),
    ("nothing stands on the tools", {"lbdns.server.x": "import lbdns_tools.bench"}),
]


@pytest.mark.parametrize(("name", "sources"), BREACHES)
def test_breach_is_found(name: str, sources: dict[str, str]) -> None:
    assert broken(RULES[name], made_up(sources))


def test_every_rule_has_a_breach_that_is_found() -> None:
    assert {name for name, _ in BREACHES} == set(RULES)


KEPT = [
    ("answers and plans are made of arguments alone", {"lbdns.answering.x": "import struct\nfrom . import y"}),
    ("answers and plans are made of arguments alone", {"lbdns.server.x": "import asyncio, time, os"}),
    ("answers and plans are made of arguments alone", {"lbdns.policies.x": "import timeit, osmosis"}),
    ("the agent takes little from the server's package", {"lbdns_agent.x": "from lbdns.report import Report"}),
    ("the agent takes little from the server's package", {"lbdns_agent.x": "from lbdns import __version__"}),
    ("the agent stays light", {"lbdns_agent.x": "import http, urllib.parse, socket"}),
    ("only what starts things knows the collector", {"lbdns.commands.x": "from lbdns_collector import table"}),
    (
        "answers and plans are made of arguments alone",
        {"lbdns.answering.x": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio"},
    ),
]


@pytest.mark.parametrize(("name", "sources"), KEPT)
def test_what_is_allowed_is_not_found(name: str, sources: dict[str, str]) -> None:
    assert broken(RULES[name], made_up(sources)) == []


@pytest.mark.parametrize(
    ("sources", "ring"),
    [
        ({"lbdns.a": "from lbdns.b import x", "lbdns.b": "import lbdns.a"}, "lbdns.a -> lbdns.b -> lbdns.a"),
        ({"lbdns.a": "from . import b", "lbdns.b": "from .c import x", "lbdns.c": "def f():\n    from . import a"},
         "lbdns.a -> lbdns.b -> lbdns.c -> lbdns.a"),
    ],
)  # fmt: skip
def test_cycle_is_found(sources: dict[str, str], ring: str) -> None:
    assert cycles(made_up(sources)) == [ring]


def test_no_cycle_where_two_share_a_third() -> None:
    assert cycles(made_up({"lbdns.a": "from . import b, c", "lbdns.b": "from . import c", "lbdns.c": ""})) == []


def made_up(sources: dict[str, str]) -> dict[str, Module]:
    """Modules from sources; the packages above them are there and empty."""
    full = {"lbdns": ("", True), **{name: (source, False) for name, source in sources.items()}}
    for name in sources:
        parts = name.split(".")
        for end in range(1, len(parts)):
            full.setdefault(".".join(parts[:end]), ("", True))
    full = {name: (source, package or name in ("lbdns.answering", "lbdns_agent"))
            for name, (source, package) in full.items()}  # fmt: skip
    return modules_of(full)
