"""Tests of lbdns.toml: the bus from which reports also come."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.bus_url import parse_bus_url
from lbdns_shared.errors import ConfigError
from tests.config.config_files import POOL, ZONE, Load, pool_table

KEYED = f'{ZONE}[collector]\nkey_file = "report.key"\n'


def test_off_by_default(load: Load) -> None:
    for text in (ZONE, ZONE + "[bus]\n"):
        assert load(text).bus.url == ()


def test_overrides_are_shared_only_on_request(load: Load) -> None:
    section = f'{KEYED}[bus]\nurl = ["nats://h"]\n'
    assert not load(section).bus.share_overrides
    assert load(section + "share_overrides = true\n").bus.share_overrides
    assert load(section).bus.override_copies == 1
    assert load(section + "override_copies = 3\n").bus.override_copies == 3
    with pytest.raises(ConfigError, match=r"\[bus\] override_copies"):
        load(section + "override_copies = 0\n")


def test_a_collector_may_receive_the_reports_of_some_pools(load: Load) -> None:
    section = f'{KEYED}[bus]\nurl = ["nats://h"]\n'
    pools = POOL + pool_table("frodo", name="shop")
    assert load(section + pools).bus.pools == ()
    assert load(f'{section}pools = ["shop", "-", "shop"]\n{pools}').bus.pools == ("shop", "-")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f'{KEYED}[bus]\nurl = ["nats://h"]\npools = ["wep"]\n{POOL}', r"\[bus\] pools.* no \[\[pool\]\] 'wep'.*'web'"),
        (f'{KEYED}[bus]\nurl = ["nats://h"]\npools = 3\n{POOL}', r"\[bus\] pools"),
        (
            f'{KEYED}connect = "bus"\n[bus]\nurl = ["nats://h"]\npools = ["web"]\n{POOL}',
            r"\[bus\] pools.* no reports are received",
        ),
    ],
)
def test_pools_that_cannot_be_received(load: Load, text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        load(text)


def test_answers_are_shared_unless_it_is_turned_off(load: Load) -> None:
    section = f'{KEYED}[bus]\nurl = ["nats://h"]\n'
    assert load(section).bus.share_answers
    assert not load(section + "share_answers = false\n").bus.share_answers


def test_on(load: Load, tmp_path: Path) -> None:
    one, two = "nats://collector@10.0.0.5", "tls://nats.example.net:14222"
    config = load(
        f'{KEYED}[bus]\nurl = ["{one}", "{two}", "{one}"]\npassword_file = "bus.password"\ntls_ca = "ca.crt"\n'
    )
    assert config.bus.url == (parse_bus_url(one), parse_bus_url(two))
    assert (config.bus.password_file, config.bus.tls_ca) == (tmp_path / "bus.password", tmp_path / "ca.crt")
    assert {tmp_path / "bus.password", tmp_path / "ca.crt"} <= set(config.files)


def test_an_nkey(load: Load, tmp_path: Path) -> None:
    config = load(f'{KEYED}[bus]\nurl = "nats://h"\nnkey_file = "bus.nk"\n')
    assert config.bus.nkey_file == tmp_path / "bus.nk"
    assert tmp_path / "bus.nk" in config.files


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            f'{KEYED}[bus]\nurl = "10.0.0.5"\n',
            "[bus] url: '10.0.0.5' is not the URL of a NATS server; write nats://HOST",
        ),
        (f"{KEYED}[bus]\nurl = []\n", "[bus] url: must list at least one NATS server"),
        (f'{KEYED}[bus]\ntls_ca = "ca.crt"\n', "[bus] url: must list at least one NATS server"),
        (f'{KEYED}[bus]\nulr = "nats://h"\n', "[bus] ulr: unknown key"),
        (
            f'{KEYED}[bus]\nurl = "nats://a:b@h"\npassword_file = "f"\n',
            "[bus] password_file: must not be set together with a password in a URL",
        ),
        (
            f'{KEYED}[bus]\nurl = "nats://a@h"\nnkey_file = "f"\n',
            "[bus] nkey_file: must not be set together with password_file, or with credentials in a URL",
        ),
        (
            f'{KEYED}[bus]\nurl = "nats://h"\nnkey_file = "f"\npassword_file = "f"\n',
            "[bus] nkey_file: must not be set together with password_file, or with credentials in a URL",
        ),
        (f'{ZONE}[bus]\nurl = "nats://h"\n', "[bus] url: requires [collector] key_file"),
        (
            f'{KEYED}connect = "bus"\n',
            "[bus] url: must list the NATS servers of the bus, because [collector] connect is",
        ),
        (
            f'{ZONE}[collector]\nconnect = "bus"\n[bus]\nurl = "nats://h"\n',
            '[collector] connect: with "bus", key_file must also be set',
        ),
        (
            f'{KEYED}connect = "bus"\nconnect_token_file = "t"\n[bus]\nurl = "nats://h"\n',
            '[collector] connect_token_file: has no effect with connect = "bus"',
        ),
        (
            f'{KEYED}connect = "bus"\nlisten = "0.0.0.0:7777"\n[bus]\nurl = "nats://h"\n',
            "[collector] listen: must not be set together with connect",
        ),
        (f'{ZONE}[collector]\nconnect = "buss"\n', "[collector] connect: must be the URL of a collector, not 'buss'"),
        (
            f'{ZONE}[collector]\nconnect = "http://ns1:8053"\n[bus]\nurl = "nats://h"\n',
            "[bus] url: must not be set together with the URL in [collector] connect",
        ),
    ],
)
def test_mistakes(load: Load, text: str, finding: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert any(finding in line for line in caught.value.findings), caught.value.findings
    assert "a:b" not in str(caught.value)


def test_follow_the_bus(load: Load) -> None:
    config = load(f'{KEYED}connect = "bus"\n[bus]\nurl = "nats://h"\n')
    assert config.collector.follows_bus
    assert config.bus.url == (parse_bus_url("nats://h"),)
