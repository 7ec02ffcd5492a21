"""Tests of the wheels of the distributions: the files in each wheel, and the agent installed on its own."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

import lbdns
import lbdns_shared
import lbdns_tools
from lbdns_shared.report import decode_body, open_envelope

ROOT: Final = Path(__file__).parents[2]
#: Distribution -> its folder, and the packages that its wheel contains
DISTRIBUTIONS: Final = {
    "lbdns-agent": ("agent", {"lbdns_agent", "lbdns_shared"}),
    "lbdns": (".", {"lbdns", "lbdns_collector"}),
    "lbdns-tools": ("tools", {"lbdns_tools"}),
}
XDP_PROGRAM: Final = "lbdns/server/xdp/answers.o"
MAX_INSTALLED: Final = 3_000_000  # bytes: the agent with its dependencies, which goes onto every web server
PATIENCE: Final = 60.0  # seconds for an agent on a busy machine to send its first report


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Build all wheels offline from a copy of the tracked files, because building writes into the source folder.

    The copy also contains the XDP program if it has been built.
    """
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in (*tracked.decode().split("\0"), XDP_PROGRAM):
        source, target = ROOT / name, copy / name
        if name and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    found = {}
    for distribution, (folder, _) in DISTRIBUTIONS.items():
        subprocess.run([*command, "--wheel-dir", str(out), str(copy / folder)], check=True, capture_output=True)
        (found[distribution],) = out.glob(f"{distribution.replace('-', '_')}-[0-9]*.whl")
    return found


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_wheel_contains_its_packages_whole_and_nothing_else(distribution: str, wheels: Mapping[str, Path]) -> None:
    _, packages = DISTRIBUTIONS[distribution]
    names = zipfile.ZipFile(wheels[distribution]).namelist()
    code = {name for name in names if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in code} == packages
    folders = {"lbdns": "lbdns", "lbdns_collector": "collector/lbdns_collector", "lbdns_tools": "tools/lbdns_tools"}
    folders |= {name: f"agent/{name}" for name in ("lbdns_agent", "lbdns_shared")}
    expected = {
        f"{package}/{path.relative_to(ROOT / folders[package])}"
        for package in packages
        for path in (ROOT / folders[package]).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert code == expected
    assert not [
        name for name in code if re.search(r"(^|/)(tests?|bench|benchmarks)/", name) and "lbdns_tools" not in name
    ]
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_all_distributions_have_one_version() -> None:
    native = tomllib.loads((ROOT / "native" / "pyproject.toml").read_text())["project"]["version"]
    assert {lbdns.__version__, lbdns_shared.__version__, lbdns_tools.__version__, native} == {lbdns.__version__}


def test_only_the_server_depends_on_the_agent_and_the_agent_on_msgpack_alone() -> None:
    agent = tomllib.loads((ROOT / "agent" / "pyproject.toml").read_text())["project"]
    assert agent["dependencies"] == ["msgpack>=1.0"]
    assert "lbdns-agent" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def test_the_agent_installs_alone_and_reports(wheels: Mapping[str, Path], tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    packages = next(environment.glob("lib/python*/site-packages"))
    before = {path.name for path in packages.iterdir()}
    install = [str(environment / "bin" / "pip"), "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    subprocess.run([*install, str(wheels["lbdns-agent"])], check=True)
    added = [path for path in packages.iterdir() if path.name not in before]
    files = [file for path in added for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    assert {path.name.partition("-")[0] for path in added} == {"lbdns_agent", "lbdns_shared", "msgpack"}
    assert sum(file.stat().st_size for file in files) < MAX_INSTALLED

    agent = str(environment / "bin" / "lbdns-agent")
    clean = {"PATH": os.environ["PATH"]}
    off = ("--gateway", "off", "--server-status", "off")
    sample = subprocess.run([agent, "--once", "--json", *off], capture_output=True, text=True, check=True, env=clean)
    assert "cpu_idle" in json.loads(sample.stdout)["metrics"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        collector.settimeout(PATIENCE)
        endpoint = f"127.0.0.1:{collector.getsockname()[1]}"
        running = subprocess.Popen([agent, "--collector", endpoint, "--name", "web1", *off], env=clean)
        try:
            envelope = open_envelope(collector.recv(2000))
        finally:
            running.terminate()
            assert running.wait(PATIENCE) == 0
    assert envelope.host == "web1"
    assert decode_body(envelope).metrics["cpu_count"] > 0
