"""Tests of the artefacts that need neither root nor a compiler: contents, and the same bytes from every build."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

import lbdns
from lbdns_packaging.__main__ import main
from lbdns_packaging.debian_releases import SERVER_RELEASES, DebianRelease
from lbdns_packaging.linux_packages import PackageBuilder
from lbdns_packaging.nfpm_packages import build_package
from lbdns_packaging.package_descriptions import server_package
from lbdns_packaging.python_wheels import PYTHON_DISTRIBUTIONS, build_distribution
from lbdns_packaging.server_environment import site_packages
from lbdns_packaging.source_tree import copy_source, source_date_epoch
from lbdns_packaging.staged_trees import stage_server
from tests.distributions.test_agent_oldest_python import find_python
from tests.needs import needs

ROOT: Final = Path(__file__).parents[2]
VERSION: Final = lbdns.__version__


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheels, source archives and the agent as one file; return their folder."""
    out = tmp_path_factory.mktemp("dist")
    assert main(["wheels", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_source(tmp_path_factory.mktemp("source") / "tree")


@pytest.fixture(scope="module")
def builder(source: Path, built: Path, tmp_path_factory: pytest.TempPathFactory) -> PackageBuilder:
    out = tmp_path_factory.mktemp("packages")
    for wheel in built.glob("*.whl"):
        shutil.copy(wheel, out)
    return PackageBuilder(source, out, tmp_path_factory.mktemp("work"), source_date_epoch(), VERSION)


def digests(folder: Path) -> Mapping[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def lines(*command: str | Path) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_build_replaces_the_artefact_of_an_earlier_one(source: Path, tmp_path: Path) -> None:
    before = tmp_path / f"lbdns_agent-{VERSION}-py3-none-any.whl"
    before.write_bytes(b"of an earlier build")
    assert build_distribution(source / PYTHON_DISTRIBUTIONS["lbdns-agent"], tmp_path, "wheel", 0) == before
    assert zipfile.is_zipfile(before)


def test_all_artefacts_are_built(built: Path) -> None:
    assert {path.name for path in built.iterdir()} == {
        "lbdns-agent.pyz",
        f"lbdns_native-{VERSION}-py3-none-any.whl",
        *(f"{name.replace('-', '_')}-{VERSION}.tar.gz" for name in PYTHON_DISTRIBUTIONS),
        *(f"{name.replace('-', '_')}-{VERSION}-py3-none-any.whl" for name in PYTHON_DISTRIBUTIONS),
    }


def test_every_build_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lbdns_packaging", "wheels", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "packaging"), "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "5"}
    subprocess.run(command, env=environment, umask=0o077, check=True, capture_output=True)
    assert digests(tmp_path) == digests(built)


@pytest.mark.parametrize("distribution", PYTHON_DISTRIBUTIONS)
def test_a_source_archive_builds_the_same_wheel(distribution: str, built: Path, tmp_path: Path) -> None:
    name = distribution.replace("-", "_")
    with tarfile.open(built / f"{name}-{VERSION}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "out").mkdir()
    wheel = build_distribution(tmp_path / f"{name}-{VERSION}", tmp_path / "out", "wheel", source_date_epoch())
    assert wheel.read_bytes() == (built / wheel.name).read_bytes()


@pytest.mark.parametrize("distribution", [*PYTHON_DISTRIBUTIONS, "lbdns-native"])
def test_every_wheel_contains_the_licence(distribution: str, built: Path) -> None:
    name = f"{distribution.replace('-', '_')}-{VERSION}"
    content = zipfile.ZipFile(built / f"{name}-py3-none-any.whl").read(f"{name}.dist-info/licenses/LICENSE")
    assert content == (ROOT / "LICENSE").read_bytes()


def test_the_native_sources_contain_the_licence() -> None:
    assert (ROOT / "native" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_other_platforms_install_an_empty_native_wheel(built: Path, tmp_path: Path) -> None:
    names = zipfile.ZipFile(built / f"lbdns_native-{VERSION}-py3-none-any.whl").namelist()
    assert all(".dist-info/" in name for name in names)
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(built), "--no-deps",
        "--only-binary=:all:", "--platform=musllinux_1_2_armv7l", "--target", str(tmp_path), "lbdns-native",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == [f"lbdns_native-{VERSION}.dist-info"]


def test_the_server_takes_the_fast_path_from_a_wheel_on_linux_alone() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert "\"lbdns-native; sys_platform == 'linux'\"," in text


def test_the_agent_as_one_file_contains_its_modules_and_msgpack_in_python(built: Path) -> None:
    names = set(zipfile.ZipFile(built / "lbdns-agent.pyz").namelist())
    own = {
        path.relative_to(ROOT / "agent").as_posix()
        for package in ("lbdns_agent", "lbdns_shared")
        for path in (ROOT / "agent" / package).rglob("*.py")
    }
    assert own <= names
    assert names - own == {
        "__main__.py", "LICENSE", "msgpack/LICENSE",
        "msgpack/__init__.py", "msgpack/exceptions.py", "msgpack/ext.py", "msgpack/fallback.py",
    }  # fmt: skip


@pytest.mark.parametrize("oldest", [False, True])
def test_the_agent_as_one_file_runs_without_any_package(oldest: bool, built: Path, tmp_path: Path) -> None:
    python = find_python() if oldest else sys.executable
    command = [python, "-I", "-S", str(built / "lbdns-agent.pyz"), "--once", "--json"]
    off = ["--gateway", "off", "--server-status", "off"]
    sample = subprocess.run([*command, *off], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(sample.stdout)["metrics"]["cpu_count"] > 0


@needs(programs=("dpkg-deb",))
def test_the_agents_package_of_debian(builder: PackageBuilder) -> None:
    package = builder.agent("deb")
    first = package.read_bytes()
    assert builder.agent("deb").read_bytes() == first
    fields = "\n".join(lines("dpkg-deb", "--field", package))
    assert "\nDepends: python3 (>= 3.9), python3-msgpack\n" in fields
    assert "\nArchitecture: all\n" in fields
    names = {line.split()[-1] for line in lines("dpkg-deb", "--contents", package)}
    assert {"./usr/bin/lbdns-agent", "./usr/lib/lbdns-agent/lbdns_agent/cli.py"} <= names
    assert "./usr/share/doc/lbdns-agent/copyright" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    assert {line.split()[1] for line in lines("dpkg-deb", "--contents", package)} == {"root/root"}


@needs(programs=("rpm",))
def test_the_agents_rpm(builder: PackageBuilder) -> None:
    package = builder.agent("rpm")
    first = package.read_bytes()
    assert builder.agent("rpm").read_bytes() == first
    assert {"python3 >= 3.9", "python3-msgpack"} <= set(lines("rpm", "--query", "--package", "--requires", package))
    names = lines("rpm", "--query", "--package", "--list", package)
    assert {"/usr/bin/lbdns-agent", "/usr/lib/lbdns-agent/lbdns_agent/cli.py"} <= set(names)
    assert {"/usr/lib/lbdns-agent", "/usr/share/doc/lbdns-agent"} <= set(names), "rpm removes the folders that it owns"
    assert "/usr/bin" not in names


@needs(programs=("dpkg-deb",))
@pytest.mark.parametrize("release", SERVER_RELEASES, ids=lambda release: release.codename)
def test_the_servers_package(release: DebianRelease, source: Path, built: Path, tmp_path: Path) -> None:
    """Without dependencies, which would have to be downloaded; make packages-check installs the whole package."""
    wheels = [built / f"{name}-{VERSION}-py3-none-any.whl" for name in ("lbdns", "lbdns_agent", "lbdns_native")]
    stage, out = tmp_path / "stage", tmp_path / "out"
    stage_server(source, stage, release, wheels, [])
    out.mkdir()
    description, scripts = server_package(release, "amd64"), source / "packaging" / "scripts"
    package = build_package(description, "deb", stage, scripts, out, source_date_epoch(), VERSION)
    assert package.name == f"lbdns_{VERSION}-1~deb{release.number}_amd64.deb"
    contents = lines("dpkg-deb", "--contents", package)
    names = {line.split()[5] for line in contents}
    modules = f"./{site_packages(release.python)}"
    assert {f"{modules}/lbdns/cli.py", f"{modules}/lbdns_collector/web/static/index.html"} <= names
    assert {"./etc/lbdns/lbdns.toml", "./usr/lib/sysusers.d/lbdns.conf", "./usr/lib/lbdns/pyvenv.cfg"} <= names
    assert any(line.endswith("./usr/bin/lbdns -> ../lib/lbdns/bin/lbdns") for line in contents)
    assert any(line.endswith(f"./usr/lib/lbdns/bin/python3 -> /usr/bin/python{release.python}") for line in contents)
    control = tmp_path / "control"
    lines("dpkg-deb", "--control", package, control)
    settings = sorted(path.relative_to(stage) for path in (stage / "etc").rglob("*") if path.is_file())
    assert (control / "conffiles").read_text().split() == [f"/{path}" for path in settings]
    for script in ("postinst", "prerm", "postrm"):
        assert (control / script).stat().st_mode & 0o111
        assert "@" not in re.sub(r"#.*", "", (control / script).read_text())
        subprocess.run(["sh", "-n", control / script], check=True)


@needs(programs=("dpkg-deb",))
def test_the_tools_package_depends_on_the_server_of_the_same_version(builder: PackageBuilder) -> None:
    release = SERVER_RELEASES[0]
    package = builder.tools(release)
    fields = lines("dpkg-deb", "--field", package)
    assert f"Depends: lbdns (= {VERSION}-1~deb{release.number})" in fields
    names = {line.split()[5] for line in lines("dpkg-deb", "--contents", package)}
    commands = {"lbdns-calibrate", "lbdns-lab", "lbdns-load", "lbdns-scaler", "lbdns-sim"}
    assert {f"./usr/bin/{command}" for command in commands} <= names
    assert f"./{site_packages(release.python)}/lbdns_tools/lab/facts/" in names
