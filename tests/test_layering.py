"""Checks that all modules respect the project's layers, and that the checker detects violations."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.layering import Ban, Module, broken, cycles, layer_of, modules_of, read_sources, upward_imports

ROOT = Path(__file__).parent.parent

#: Lowest first. A module may import from its own layer and from lower ones; the longest name that fits counts.
#: docs/architecture.md shows the same list.
LAYERS: Final = (
    "lbdns_shared",
    "lbdns_agent",
    "lbdns.native_extension",
    "lbdns.text",
    "lbdns.policies",
    "lbdns.scores",
    "lbdns.zones",
    "lbdns.config",
    "lbdns.secrets",
    "lbdns.events",
    "lbdns.process",
    "lbdns.sockets",
    "lbdns.command_line",
    "lbdns.model",
    "lbdns.bus",
    "lbdns.choosing",
    "lbdns.answering",
    "lbdns.counting",
    "lbdns.planning",
    "lbdns.history",
    "lbdns.client",
    "lbdns.setup",
    "lbdns_collector.checks",
    "lbdns_collector.joining",
    "lbdns_collector.reports",
    "lbdns_collector.status",
    "lbdns_collector.snapshots",
    "lbdns_collector.prometheus",
    "lbdns_collector.web",
    "lbdns_collector",
    "lbdns.server.query_log",
    "lbdns.server.transport",
    "lbdns.server",
    "lbdns.backup",
    "lbdns.demo",
    "lbdns.commands",
    "lbdns",
    "lbdns_tools",
)
#: The root package holds the version, which every layer may read.
VERSION: Final = "lbdns"

BANS = {
    "answers and plans depend on their arguments alone": Ban(
        of=("lbdns.answering", "lbdns.policies", "lbdns.choosing"),
        forbidden=("asyncio", "socket", "time", "random", "threading", "os", "logging"),
    ),
    "scaling policies depend on their arguments alone": Ban(
        of=("lbdns_tools.scaler.policies", "lbdns_tools.scaler.life_cycle.scaling_limits"),
        forbidden=("asyncio", "time", "random", "threading", "subprocess", "logging"),
    ),
    "the agent imports nothing of the server": Ban(
        of=("lbdns_agent", "lbdns_shared"), forbidden=("lbdns", "lbdns_collector", "lbdns_tools")
    ),
    "the agent stays light": Ban(
        of=("lbdns_agent", "lbdns_shared"),
        forbidden=("asyncio", "aiohttp", "http.client", "urllib.request", "click", "rich", "dns"),
    ),
    "the server imports nothing of the agent": Ban(of=("lbdns", "lbdns_collector"), forbidden=("lbdns_agent",)),
    "checks of reports depend on their arguments alone": Ban(
        of=(
            "lbdns.scores", "lbdns_collector.reports.adaptive_weights", "lbdns_collector.reports.report_table",
            "lbdns_collector.checks.check_schedule", "lbdns_collector.status.status_document",
        ),
        forbidden=("asyncio", "socket", "time"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sources() -> dict[str, tuple[str, bool]]:
    folders = {
        "lbdns_shared": ROOT / "agent" / "lbdns_shared",
        "lbdns": ROOT / "lbdns",
        "lbdns_agent": ROOT / "agent" / "lbdns_agent",
        "lbdns_collector": ROOT / "collector" / "lbdns_collector",
        "lbdns_tools": ROOT / "tools" / "lbdns_tools",
    }
    return read_sources(folders)


@pytest.fixture(scope="module")
def modules(sources: dict[str, tuple[str, bool]]) -> dict[str, Module]:
    return without_version(modules_of(sources))


def without_version(modules: dict[str, Module]) -> dict[str, Module]:
    """Return the modules, leaving out imports of the version from the root package."""
    return {
        name: Module(name, module.ours - {VERSION}, module.imports - {f"{VERSION}.__version__"})
        for name, module in modules.items()
    }


def test_imports_go_downwards(modules: dict[str, Module]) -> None:
    assert upward_imports(LAYERS, modules) == []


def test_every_layer_has_modules(modules: dict[str, Module]) -> None:
    inhabited = {layer_of(name, LAYERS) for name in modules}
    assert [layer for index, layer in enumerate(LAYERS) if index not in inhabited] == []


def test_no_import_cycles(modules: dict[str, Module]) -> None:
    assert cycles(modules) == []


@pytest.mark.parametrize("name", BANS)
def test_ban_is_kept(name: str, sources: dict[str, tuple[str, bool]]) -> None:
    assert broken(BANS[name], without_version(modules_of(sources, type_only=False))) == []


@pytest.mark.parametrize("name", BANS)
def test_ban_binds_modules_that_exist(name: str, modules: dict[str, Module]) -> None:
    for place in BANS[name].of:
        assert any(module == place or module.startswith(f"{place}.") for module in modules), place


def test_architecture_shows_the_layers() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    places = [text.find(f"| `{layer}` |") for layer in LAYERS]
    assert -1 not in places, LAYERS[places.index(-1)]
    assert places == sorted(places)


UPWARD = [
    {"lbdns.policies.x": "from lbdns.model.farm import Farm", "lbdns.model.farm": ""},
    {
        "lbdns.policies.x": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lbdns.model import farm",
        "lbdns.model.farm": "",
    },
    {"lbdns.config.x": "def f():\n    from lbdns.choosing import y", "lbdns.choosing.y": ""},
    {"lbdns_collector.reports.x": "import lbdns_collector.web.y", "lbdns_collector.web.y": ""},
    {"lbdns.server.transport.x": "from lbdns.server import y", "lbdns.server.y": ""},
    {"lbdns.server.x": "import lbdns_tools.bench", "lbdns_tools.bench": ""},
    {"elsewhere.x": ""},
]


@pytest.mark.parametrize("sources", UPWARD)
def test_upward_import_is_found(sources: dict[str, str]) -> None:
    assert upward_imports(LAYERS, made_up(sources))


def test_downward_imports_are_allowed() -> None:
    sources = {"lbdns.server.x": "from lbdns.server.transport import y\nimport lbdns_shared.z"}
    assert upward_imports(LAYERS, made_up({**sources, "lbdns.server.transport.y": "", "lbdns_shared.z": ""})) == []


BREACHES = [
    ("answers and plans depend on their arguments alone", {"lbdns.answering.x": "import asyncio"}),
    ("answers and plans depend on their arguments alone", {"lbdns.answering": "from socket import AF_INET"}),
    ("answers and plans depend on their arguments alone", {"lbdns.policies.x": "def f():\n    from time import time"}),
    ("answers and plans depend on their arguments alone", {"lbdns.policies.x": "import random as r"}),
    ("answers and plans depend on their arguments alone", {"lbdns.choosing.x": "import os.path"}),
    ("answers and plans depend on their arguments alone", {"lbdns.policies.x": "import logging, threading"}),
    (
        "answers and plans depend on their arguments alone",
        {"lbdns.policies.x": "from ..model.farm import f", "lbdns.model.farm": "import time"},
    ),
    ("scaling policies depend on their arguments alone", {"lbdns_tools.scaler.policies.x": "from time import time"}),
    ("the agent imports nothing of the server", {"lbdns_agent.x": "import lbdns.model.farm", "lbdns.model.farm": ""}),
    ("the agent imports nothing of the server", {"lbdns_shared.x": "from lbdns import __version__"}),
    ("the agent stays light", {"lbdns_agent.x": "from http import client"}),
    ("the agent stays light", {"lbdns_agent.x": "if True:\n    import asyncio"}),
    ("the agent stays light", {"lbdns_agent.x": "import lbdns_shared.log", "lbdns_shared.log": "import aiohttp"}),
    ("the server imports nothing of the agent", {"lbdns_collector.x": "from lbdns_agent import cli"}),
    ("checks of reports depend on their arguments alone", {"lbdns_collector.reports.report_table": "import time"}),
    ("checks of reports depend on their arguments alone", {"lbdns.scores.score": "import asyncio"}),
]


@pytest.mark.parametrize(("name", "sources"), BREACHES)
def test_breach_is_found(name: str, sources: dict[str, str]) -> None:
    assert broken(BANS[name], made_up(sources))


def test_every_ban_has_a_breach_that_is_found() -> None:
    assert {name for name, _ in BREACHES} == set(BANS)


KEPT = [
    ("answers and plans depend on their arguments alone", {"lbdns.answering.x": "import struct\nfrom . import y"}),
    ("answers and plans depend on their arguments alone", {"lbdns.server.x": "import asyncio, time, os"}),
    ("answers and plans depend on their arguments alone", {"lbdns.policies.x": "import timeit, osmosis"}),
    ("the agent imports nothing of the server", {"lbdns_agent.x": "from lbdns_shared.report import Report"}),
    ("the agent stays light", {"lbdns_agent.x": "import http, urllib.parse, socket"}),
    (
        "answers and plans depend on their arguments alone",
        {"lbdns.answering.x": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio"},
    ),
]


@pytest.mark.parametrize(("name", "sources"), KEPT)
def test_permitted_imports_are_not_reported(name: str, sources: dict[str, str]) -> None:
    assert broken(BANS[name], made_up(sources, type_only=False)) == []


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


def test_two_importers_of_one_module_are_no_cycle() -> None:
    assert cycles(made_up({"lbdns.a": "from . import b, c", "lbdns.b": "from . import c", "lbdns.c": ""})) == []


def made_up(sources: dict[str, str], *, type_only: bool = True) -> dict[str, Module]:
    """Return modules with these ``sources``, and with empty parent packages."""
    full = {"lbdns": ("", True), **{name: (source, False) for name, source in sources.items()}}
    for name in sources:
        parts = name.split(".")
        for end in range(1, len(parts)):
            full.setdefault(".".join(parts[:end]), ("", True))
    full = {
        name: (source, package or name in ("lbdns.answering", "lbdns_agent"))
        for name, (source, package) in full.items()
    }
    return modules_of(full, type_only=type_only)
