"""Tests of the Containerfile: its configuration is valid, and the programs accept its commands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from lbdns.cli import lbdns
from lbdns.config import read_config
from lbdns_shared.endpoint import Endpoint

PACKAGING: Final = Path(__file__).parents[2] / "packaging"
TEXT: Final = (PACKAGING / "Containerfile").read_text()


def instruction(name: str) -> str:
    """Return the arguments of the only instruction of this kind."""
    (found,) = re.findall(rf"^{name} (.+)$", TEXT, re.MULTILINE)
    return str(found)


def command(text: str) -> list[str]:
    words = json.loads(text[text.index("[") :])
    assert all(isinstance(word, str) for word in words)
    return list(words)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration in the image."""
    shutil.copytree(PACKAGING / "etc" / "lbdns" / "lbdns", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "lbdns.toml"
    (edit,) = re.findall(r"sed -i '(.+)' /etc/lbdns/lbdns\.toml", TEXT)
    path.write_text(subprocess.run(["sed", edit, path], check=True, capture_output=True, text=True).stdout)
    return path


def test_the_server_listens_on_the_ports_that_are_published(config: Path) -> None:
    found, findings = read_config(config)
    assert not findings
    assert found.server.listen == (Endpoint("0.0.0.0", 5300),)
    ports = set(instruction("EXPOSE").split())
    assert ports == {"5300/udp", "5300/tcp", *(f"{each.port}/udp" for each in found.collector.listen)}


def test_it_runs_as_the_user_of_the_configuration(config: Path) -> None:
    assert instruction("USER") == read_config(config)[0].server.user
    assert instruction("VOLUME") == str(read_config(config)[0].server.state_dir)


@pytest.mark.parametrize("text", ["CMD", "HEALTHCHECK"])
def test_the_program_accepts_its_commands(text: str, config: Path) -> None:
    words = command(instruction(text))
    if text == "HEALTHCHECK":
        assert [words[0]] == command(instruction("ENTRYPOINT"))
        words = words[1:]
    result = CliRunner().invoke(lbdns, [words[0], "-c", str(config), *words[1:], "--help"])
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(lbdns, [*words, "--nonsense", "--help"]).exit_code == 2
