"""Tests of user data: placeholders, quoting, keys, and a run of the script that lbdns contains."""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.cli import build_parser, read_options
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError, KeyFileError
from lbdns_shared.keys import MasterKey, agent_line, new_master_key, parse_key_file
from lbdns_tools.scaler.providers.agent_settings import AgentSettings
from lbdns_tools.scaler.providers.provider import ProviderError
from lbdns_tools.scaler.providers.user_data import (
    MAX_LENGTH,
    PLACEHOLDERS,
    UserDataTemplate,
    read_user_data,
    template_findings,
)

MASTER = new_master_key()
COLLECTORS = (Endpoint("192.0.2.53", 7777), Endpoint("2001:db8::53", 7778))


@pytest.fixture
def agent(tmp_path: Path) -> AgentSettings:
    path = tmp_path / "report.key"
    path.touch(0o600)
    path.write_text(MASTER.line() + "\n")
    return AgentSettings(COLLECTORS, "it's $(a) pool", path, 2.5)


def run_script(script: str, root: Path) -> list[str]:
    """Run the script with programs that only log their calls, and return the log."""
    programs, log = root / "programs", root / "log"
    programs.mkdir()
    pip = 'mkdir -p "$3/bin"; ln -s "$0" "$3/bin/pip"'
    for name, text in {"apt-get": "", "systemctl": "", "python3": f'[ "$1" != -m ] || {{ {pip}; }}'}.items():
        path = programs / name
        path.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >> {shlex.quote(str(log))}\n{text}\n')
        path.chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "LBDNS_ROOT": str(root / "machine root")}
    run = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return log.read_text().splitlines()


def started_agent(launcher: str) -> AgentOptions:
    words = shlex.split(launcher.splitlines()[-1])
    assert words[:2] == ["exec", "/opt/lbdns-agent/bin/lbdns-agent"]
    parser = build_parser()
    return read_options(parser.parse_args(words[2:]))


def test_the_default_script_installs_and_starts_web_server_and_agent(agent: AgentSettings, tmp_path: Path) -> None:
    script = read_user_data(None, agent, "web-")("web-7")
    log = run_script(script, tmp_path)
    root = tmp_path / "machine root"
    assert log[1] == "apt-get install --yes --quiet=2 --no-install-recommends apache2 python3-venv"
    assert log[2] == f"python3 -m venv {root}/opt/lbdns-agent"
    assert log[3] == "pip install --quiet lbdns-agent"
    assert log[-1] == "systemctl enable --now apache2.service lbdns-agent.service"
    key_file = root / "etc/lbdns/agent.key"
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert parse_key_file(key_file.read_text(), "key").agents == (MASTER.agent_key("web-7"),)
    launcher = root / "usr/local/sbin/start-lbdns-agent"
    assert os.access(launcher, os.X_OK)
    options = started_agent(launcher.read_text())
    assert (options.name, options.collectors, options.pool, options.interval) == (
        "web-7", COLLECTORS, "it's $(a) pool", 2.5,
    )  # fmt: skip
    unit = (root / "etc/systemd/system/lbdns-agent.service").read_text()
    assert "ExecStart=/usr/local/sbin/start-lbdns-agent\n" in unit
    assert "After=network-online.target apache2.service\n" in unit
    assert "$MAINPID" in unit


def test_the_script_contains_the_key_of_its_name_and_no_other(agent: AgentSettings) -> None:
    script = read_user_data(None, agent, "web-")("web-7")
    assert agent_line(MASTER.agent_key("web-7")) in shlex.split(
        next(line for line in script.splitlines() if "printf" in line)[1:].replace(")", " )")
    )
    secrets = [MASTER.secret, MASTER.agent_key("web-8").secret, MASTER.agent_key("web-").secret]
    assert not [secret for secret in secrets if base64.b64encode(secret).decode() in script]


@given(
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=60),
    st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=60),
)
def test_every_script_is_valid_shell_and_quotes_its_values(name: str, pool: str, farm: str) -> None:
    template = UserDataTemplate("printf '%s\\n' {{name}} {{ pool }} {{farm}}\n", AgentSettings(COLLECTORS, pool), farm)
    run = subprocess.run(["sh", "-c", template(name)], capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"})
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout.decode().removesuffix("\n").split("\n") == [name, pool, farm]


def test_the_default_script_passes_sh_n(agent: AgentSettings) -> None:
    for pool in ("web", "", "a'b\"c $(d) `e` \\", "SCRIPT", "UNIT"):
        script = read_user_data(None, replace(agent, pool=pool), "web-")("web-7")
        run = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
        assert (run.returncode, run.stderr) == (0, "")
        assert not re.search(r"\{\{", script)


KNOWN = ", ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("a\n{{nane}}", f"t:2: unknown placeholder {{{{nane}}}}; known: {KNOWN}. Perhaps you meant 'name'?"),
        ("{{}}", f"t:1: unknown placeholder {{{{}}}}; known: {KNOWN}"),
        ("{{ master key }}", f"t:1: unknown placeholder {{{{master key}}}}; known: {KNOWN}"),
        ("{{Name}}", f"t:1: unknown placeholder {{{{Name}}}}; known: {KNOWN}. Perhaps you meant 'name'?"),
        (" \n", "t: the file is empty; write a script, or remove user_data to use the default one"),
    ],
)
def test_mistakes_in_templates(text: str, finding: str) -> None:
    assert template_findings(text, "t") == [finding]


def test_every_mistake_is_listed(tmp_path: Path, agent: AgentSettings) -> None:
    path = tmp_path / "boot.sh"
    path.write_text("{{a}} {{name}} {{b}}\n{{c}}\n")
    with pytest.raises(ConfigError) as error:
        read_user_data(path, agent, "web-")
    assert [finding.partition(" unknown")[0] for finding in error.value.findings] == [f"{path}:{n}:" for n in (1, 1, 2)]


def test_files_that_cannot_be_read(tmp_path: Path, agent: AgentSettings) -> None:
    with pytest.raises(ConfigError, match="cannot read the user data: No such file"):
        read_user_data(tmp_path / "absent", agent, "web-")
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="must be UTF-8 text"):
        read_user_data(path, agent, "web-")


def test_a_script_without_a_key_needs_no_master_key() -> None:
    assert UserDataTemplate("{{name}} {{pool}}", AgentSettings(), "web-")("web-1") == "web-1 ''"


def test_the_master_key_must_be_one(tmp_path: Path, agent: AgentSettings) -> None:
    with pytest.raises(KeyFileError, match="key_file: is missing"):
        read_user_data(None, replace(agent, key_file=None), "web-")("web-1")
    path = tmp_path / "agent.key"
    path.touch(0o600)
    path.write_text(agent_line(MasterKey(bytes(32)).agent_key("web-1")) + "\n")
    with pytest.raises(KeyFileError, match="contains no master key"):
        read_user_data(None, replace(agent, key_file=path), "web-")("web-1")


@pytest.mark.parametrize("name", ["a b", "$(reboot)", "", "a\nb", "Web-1"])
def test_names_that_are_no_host_names(agent: AgentSettings, name: str) -> None:
    with pytest.raises(ProviderError, match="is not a host name"):
        read_user_data(None, agent, "web-")(name)


def test_a_script_that_is_too_long(agent: AgentSettings) -> None:
    with pytest.raises(ProviderError, match=f"has {MAX_LENGTH + 1} bytes; at most {MAX_LENGTH}"):
        UserDataTemplate("{{name}}" + "x" * (MAX_LENGTH - 4), agent, "web-")("web-1")
