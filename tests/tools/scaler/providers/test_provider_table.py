"""Tests of the section ``[provider]``: every kind's settings, and the errors for mistakes."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from lbdns.config.toml_reader import read_toml
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import new_master_key
from lbdns_tools.scaler.providers.agent_settings import AgentSettings
from lbdns_tools.scaler.providers.command_provider import CommandConfig, CommandProvider
from lbdns_tools.scaler.providers.ec2_provider import Ec2Config, Ec2Provider
from lbdns_tools.scaler.providers.openstack_provider import OpenStackConfig, OpenStackProvider
from lbdns_tools.scaler.providers.process_provider import ProcessesConfig, ProcessProvider
from lbdns_tools.scaler.providers.provider_table import PROVIDERS, ProviderSection, read_provider

ROOT = Path(__file__).parents[4]
KEY = 'key_file = "report.key"\n'
COMMANDS = 'list = ["l"]\ncreate = ["c", "{name}"]\ndelete = ["d", "{name}"]\n'
OPENSTACK = 'image = "debian"\nflavor = "small"\n'
EC2 = 'image = "ami-1"\ninstance_type = "t3.small"\n'
LEAST = {"processes": "", "command": COMMANDS, "openstack": OPENSTACK, "ec2": EC2}


def read(folder: Path, kind: str, text: str) -> tuple[ProviderSection, list[str]]:
    """Return the section with these lines, and the errors without the file's name."""
    path = folder / "scaler.toml"
    path.write_text(f'[provider]\nkind = "{kind}"\n{text}')
    root = read_toml(path)
    return read_provider(root, "web"), [finding.removeprefix(f"{path}:") for finding in root.findings.found]


def good(folder: Path, kind: str, text: str) -> ProviderSection:
    section, findings = read(folder, kind, text)
    assert findings == []
    return section


@pytest.mark.parametrize(
    ("kind", "provider"),
    [
        ("processes", ProcessProvider),
        ("command", CommandProvider),
        ("openstack", OpenStackProvider),
        ("ec2", Ec2Provider),
    ],
)
async def test_the_least_settings_make_a_provider(tmp_path: Path, kind: str, provider: type) -> None:
    section = good(tmp_path, kind, KEY + LEAST[kind])
    (tmp_path / "report.key").touch(0o600)
    (tmp_path / "report.key").write_text(new_master_key().line())
    made, user_data = section.make_provider(), section.make_user_data()
    assert type(made) is provider
    assert "agent web-1 " in user_data("web-1")
    await made.close()


def test_the_settings_of_processes(tmp_path: Path) -> None:
    text = (
        'folder = "machines"\nnetwork = "127.0.2.0/28"\nport = 8081\nworkers = 3\nquota = 4\nboot_delay = "1min"\n'
        'fail_boot = ["web-9*"]\ncollectors = ["192.0.2.1", "[2001:db8::1]:99"]\npool = "web"\ninterval = "500s"\n'
    )
    section = good(tmp_path, "processes", KEY + text)
    settings, agent = section.settings, section.agent
    assert isinstance(settings, ProcessesConfig)
    assert (settings.folder, str(settings.network)) == (tmp_path.resolve() / "machines", "127.0.2.0/28")
    assert (settings.port, settings.workers, settings.quota, settings.boot_delay, settings.fail_boot) == (
        8081, 3, 4, 60.0, ("web-9*",),
    )  # fmt: skip
    expected = (Endpoint("192.0.2.1", 7777), Endpoint("2001:db8::1", 99))
    assert agent == AgentSettings(expected, "web", tmp_path.resolve() / "report.key", 500.0)


def test_the_settings_of_command(tmp_path: Path) -> None:
    text = COMMANDS + 'start = ["s", "{name}"]\nstop = ["t", "{farm}"]\ntimeout = "5s"\nquota = 3\n'
    settings = good(tmp_path, "command", KEY + text).settings
    assert settings == CommandConfig(("l",), ("c", "{name}"), ("d", "{name}"), ("s", "{name}"), ("t", "{farm}"), 5.0, 3)


def test_the_settings_of_clouds(tmp_path: Path) -> None:
    section = good(tmp_path, "openstack", KEY + OPENSTACK + 'networks = ["a", "b"]\ncloud = "c"\npublic = true\n')
    assert section.settings == OpenStackConfig("debian", "small", "c", networks=("a", "b"), public=True)
    section = good(tmp_path, "ec2", KEY + EC2 + 'security_groups = "sg-1"\nsubnet = "subnet-1"\ntimeout = "5s"\n')
    assert section.settings == Ec2Config("ami-1", "t3.small", security_groups=("sg-1",), subnet="subnet-1", timeout=5.0)


MISTAKES = [
    ("process", "", ["2: [provider] kind: unknown value 'process'. Perhaps"]),
    ("", "", ["2: [provider] kind: is missing; known: processes, command, openstack, ec2, lab"]),
    ("processes", "", ["1: [provider] key_file: is missing; name the collector's key file"]),
    ("processes", KEY + "qota = 3", ["4: [provider] qota: unknown key. Perhaps"]),
    ("processes", KEY + "quota = -1", ["4: [provider] quota: must be a whole number from 0 to 1000, not -1"]),
    ("processes", KEY + 'network = "10.0.0.0/8"', ["4: [provider] network: '10.0.0.0/8' must be part of the loopback"]),
    ("processes", KEY + 'network = "127.0.1.1/24"', ["4: [provider] network: '127.0.1.1/24' is not a network: "]),
    ("processes", KEY + 'boot_delay = "5"', ["4: [provider] boot_delay: '5' is not a valid duration"]),
    ("processes", KEY + "boot_delay = 5", ["4: [provider] boot_delay: must be a string, not 5"]),
    ("processes", KEY + "collectors = []", ["4: [provider] collectors: is empty"]),
    ("processes", KEY + 'collectors = ["a b"]', ["4: [provider] collectors: 'a b' is not a HOST:PORT pair"]),
    ("processes", KEY + 'interval = "0s"', ["4: [provider] interval: "]),
    ("processes", KEY + f'pool = "{"x" * 101}"', ["4: [provider] pool: must be the name of a pool"]),
    ("processes", KEY + 'user_data = "boot.sh"', ["4: [provider] user_data: has no effect with kind"]),
    ("processes", KEY + 'image = "x"', ["4: [provider] image: unknown key"]),
    ("command", KEY, [f"1: [provider] {key}: is missing; write the command" for key in ("list", "create", "delete")]),
    ("command", KEY + COMMANDS.replace('["l"]', '"l"'),
     ['4: [provider] list: must be a list of words, such as ["/usr/local/bin/list-server"]']),
    ("command", KEY + COMMANDS.replace('["l"]', '[""]'), ["4: [provider] list: must begin with the name of a program"]),
    ("command", KEY + COMMANDS + 'start = []', ["7: [provider] start: must begin with the name"]),
    ("command", KEY + COMMANDS + 'start = ["s"]', ["1: [provider] stop: is missing; set both start and stop"]),
    ("command", KEY + COMMANDS.replace('"d", "{name}"', '"d", "{nane}"'),
     ["6: [provider] delete: unknown placeholder {nane}; this command accepts {farm}, {name}. Perhaps you meant"]),
    ("command", KEY + COMMANDS.replace('["l"]', '["l", "{name}"]'),
     ["4: [provider] list: unknown placeholder {name}"]),
    ("command", KEY + COMMANDS.replace('["l"]', '["l", "{}"]'), ["4: [provider] list: unknown placeholder {}"]),
    ("openstack", KEY, [f"1: [provider] {key}: is missing" for key in ("image", "flavor")]),
    ("openstack", KEY + OPENSTACK + 'networks = [""]', ["6: [provider] networks: a name is empty"]),
    ("lab", KEY, ["1: [provider] lab: is missing"]),
    ("lab", KEY + 'lab = "web"', ["4: [provider] lab: 'web' is not the ID of a lab, which has six hexadecimal"]),
    ("lab", KEY + 'lab = "00ff00"\nnetwork = "10.0.0.0/24"', ["5: [provider] network: '10.0.0.0/24' must be part of"]),
    ("lab", KEY + 'lab = "00ff00"\nnetwork = "x"', ["5: [provider] network: 'x' is not a network"]),
    ("lab", KEY + 'lab = "00ff00"\nuser_data = "x"', ["5: [provider] user_data: has no effect with kind"]),
    ("ec2", KEY, [f"1: [provider] {key}: is missing" for key in ("image", "instance_type")]),
    ("ec2", KEY + EC2.replace("ami-1", "debian"), ["4: [provider] image: 'debian' is not a valid ID; it must begin"]),
    ("ec2", KEY + EC2 + 'subnet = "x"', ["6: [provider] subnet: 'x' is not a valid ID"]),
    ("ec2", KEY + EC2 + 'security_groups = ["sg-1", "web"]', ["6: [provider] security_groups: 'web' is not the ID of"]),
    ("ec2", KEY + EC2 + 'endpoint = "ec2.example.net"', ["6: [provider] endpoint: must be a URL"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "expected"), MISTAKES)
def test_mistakes(tmp_path: Path, kind: str, text: str, expected: list[str]) -> None:
    _, findings = read(tmp_path, kind, text)
    assert len(findings) == len(expected), findings
    for finding, beginning in zip(sorted(findings), sorted(expected), strict=True):
        assert finding.startswith(beginning)


def test_a_section_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "scaler.toml"
    path.write_text("")
    root = read_toml(path)
    read_provider(root, "web")
    assert root.findings.found == [
        f"{path}: [provider] kind: is missing; known: processes, command, openstack, ec2, lab"
    ]


def test_own_user_data_needs_a_key_only_if_it_contains_one(tmp_path: Path) -> None:
    section = good(tmp_path, "ec2", EC2 + 'user_data = "boot.sh"\n')
    (tmp_path / "boot.sh").write_text("#!/bin/sh\necho {{name}}\n")
    assert section.make_user_data()("web-1") == "#!/bin/sh\necho web-1\n"
    (tmp_path / "boot.sh").write_text("#!/bin/sh\necho {{key_line}}\n")
    with pytest.raises(ConfigError, match=r"boot\.sh: \{\{key_line\}\} requires \[provider\] key_file"):
        section.make_user_data()


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs/reference/scaler-providers.md").read_text()
    sections = dict(re.findall(r"\n## `(\w+)`\n(.*?)(?=\n## |\Z)", page, re.DOTALL))
    assert set(sections) >= set(PROVIDERS)
    for name, kind in PROVIDERS.items():
        assert isinstance(kind.settings, type)
        for field in fields(kind.settings):
            assert f"| `{field.name}` |" in sections[name], (name, field.name)
    for field in fields(AgentSettings):
        assert f"| `{field.name}` |" in page, field.name
