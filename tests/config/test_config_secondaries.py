"""Tests of lbdns.toml: keys, permits for zone transfers, NOTIFY targets, and every error with its line number."""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lbdns.config import Config, KeyConfig, NotifyTarget, TransferPermit, load_config
from lbdns.model.farm_reader import load_farm
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from tests.model.test_farm import HEAD

Load = Callable[[str], Config]

SECRET = bytes(range(32))
BASE64 = base64.b64encode(SECRET).decode()
KEY = f'[[key]]\nname = "secondary."\nsecret = "{BASE64}"\n'
ZONE = '[[zone]]\nname = "hobbit"\nfile = "hobbit.zone"\n'


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def read(text: str) -> Config:
        path = tmp_path / "lbdns.toml"
        path.write_text(text)
        path.chmod(0o600)
        return load_config(path)

    return read


class TestKeys:
    def test_none_by_default(self, load: Load) -> None:
        assert load(ZONE).keys == ()

    def test_a_secret_in_the_file(self, load: Load) -> None:
        (key,) = load(ZONE + KEY).keys
        assert key == KeyConfig("secondary", "hmac-sha256", SECRET)
        assert key.warnings == ()

    def test_a_secret_in_a_file_of_its_own(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "tsig.key").write_text(f"{BASE64}\n")
        (tmp_path / "tsig.key").chmod(0o600)
        keys = load(ZONE + KEY + '[[key]]\nname = "B.c"\nalgorithm = "hmac-sha512"\nsecret_file = "tsig.key"\n').keys
        assert keys[1] == KeyConfig("b.c", "hmac-sha512", SECRET)
        assert keys[1].warnings == ()

    @pytest.mark.parametrize("algorithm", ["hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"])
    def test_algorithms(self, load: Load, algorithm: str) -> None:
        assert load(ZONE + KEY + f'algorithm = "{algorithm}"\n').keys[0].algorithm == algorithm

    def test_files_that_others_can_read_are_warned_of(self, load: Load, tmp_path: Path) -> None:
        secret = tmp_path / "tsig.key"
        secret.write_text(BASE64)
        secret.chmod(0o640)
        config = load(ZONE + KEY + '[[key]]\nname = "b"\nsecret_file = "tsig.key"\n')
        assert config.keys[1].warnings == (
            f"{secret}: [key b] secret_file: mode 0640 lets other users read the secret; run 'chmod 600 {secret}'",
        )
        config.path.chmod(0o644)
        assert [len(key.warnings) for key in load_config(config.path).keys] == [1, 1]
        (tmp_path / "hobbit.zone").write_text(HEAD)
        warnings = load_farm(config.path).warnings
        assert [warning.split(": ")[1] for warning in warnings] == ["[key secondary.] secret", "[key b] secret_file"]

    def test_a_short_secret_is_warned_of(self, load: Load) -> None:
        (warning,) = load(ZONE + KEY.replace(BASE64, "c2hvcnQ=")).keys[0].warnings
        assert warning.endswith("[key secondary.] secret: a secret of 5 bytes can be guessed; use 32 bytes")


class TestSecondaries:
    def test_nobody_by_default(self, load: Load) -> None:
        (zone,) = load(ZONE).zones
        assert (zone.transfer, zone.notify) == ((), ())

    def test_who_may_transfer(self, load: Load) -> None:
        (zone,) = load(
            KEY
            + ZONE
            + 'transfer = ["10.0.0.2", "192.0.2.0/24", "2001:db8::/32", "key SECONDARY", "10.0.0.0/8 key secondary."]'
        ).zones
        assert zone.transfer == (
            TransferPermit(ipaddress.ip_network("10.0.0.2/32")),
            TransferPermit(ipaddress.ip_network("192.0.2.0/24")),
            TransferPermit(ipaddress.ip_network("2001:db8::/32")),
            TransferPermit(None, "secondary"),
            TransferPermit(ipaddress.ip_network("10.0.0.0/8"), "secondary"),
        )

    def test_who_is_told(self, load: Load) -> None:
        entries = '["10.0.0.2", "10.0.0.3:5353", "[2001:db8::1]:53 key secondary.", "2001:db8::2", "10.0.0.2:53"]'
        (zone,) = load(ZONE + f"notify = {entries}\n" + KEY).zones
        assert zone.notify == (
            NotifyTarget(Endpoint("10.0.0.2", 53)),
            NotifyTarget(Endpoint("10.0.0.3", 5353)),
            NotifyTarget(Endpoint("2001:db8::1", 53), "secondary"),
            NotifyTarget(Endpoint("2001:db8::2", 53)),
        )


NAMED = '[[key]]\nname = "n"\n'
WHAT_FITS = "must be a network, a key or both, such as '10.0.0.2', '10.0.0.0/8', 'key NAME' or '10.0.0.0/8 key NAME'"
#: What is wrong, the file, and its findings after the path; ZONE and KEY have 3 lines each
MISTAKES: list[tuple[str, str, list[str]]] = [
    ("a key without all", "[[key]]\n" + ZONE, [
        ":1: [key 1] name: is missing", ':1: [key 1] secret: is missing; set secret = "BASE64" or secret_file',
    ]),
    ("an unknown key in a key", NAMED + 'secert = "x"\n' + ZONE, [
        ':1: [key n] secret: is missing; set secret = "BASE64" or secret_file',
        ":3: [key n] secert: unknown key. Perhaps you meant 'secret'?",
    ]),
    ("two secrets", KEY + 'secret_file = "x"\n' + ZONE, [
        ":3: [key secondary.] secret: must not be set together with secret_file",
    ]),
    ("two keys of one name", KEY + KEY.replace("secondary.", "Secondary") + ZONE, [
        ":5: [key Secondary] name: two keys have the name 'secondary'; rename one of them",
    ]),
    ("a key called root", KEY.replace("secondary", "") + ZONE, [
        ":2: [key .] name: must not be the root domain; use the same name on both servers, such as 'secondary.'",
    ]),
    ("an algorithm that is too weak", KEY + 'algorithm = "hmac-sha1"\n' + ZONE, [
        ":4: [key secondary.] algorithm: unknown value 'hmac-sha1'. Perhaps you meant 'hmac-sha512'?",
    ]),
    ("a file that isn't there", NAMED + 'secret_file = "gone"\n' + ZONE, [
        ":3: [key n] secret_file: FOLDER/gone: cannot read the file: No such file or directory",
    ]),
    ("a network that is none", ZONE + 'transfer = ["10.0.0.300"]\n', [
        ":4: [zone hobbit] transfer: '10.0.0.300' is not a network: the number 300 is greater than 255; "
        "write a network such as 10.0.0.0/8 or 2001:db8::/32, or a single address",
    ]),
    ("host bits", ZONE + 'transfer = ["10.0.0.1/8"]\n', [
        ":4: [zone hobbit] transfer: '10.0.0.1/8' is not a network: the address has bits beyond the prefix length; "
        "the network is 10.0.0.0/8; "
        "write a network such as 10.0.0.0/8 or 2001:db8::/32, or a single address",
    ]),
    ("words in a wrong order", ZONE + 'transfer = ["key a 10.0.0.0/8", ""]\n', [
        f":4: [zone hobbit] transfer: 'key a 10.0.0.0/8' {WHAT_FITS}", f":4: [zone hobbit] transfer: '' {WHAT_FITS}",
    ]),
    ("a permit that is no list", ZONE + "transfer = true\n", [
        ":4: [zone hobbit] transfer: must be a list of strings, not True",
    ]),
    ("a key misspelt", KEY + ZONE + 'transfer = ["key secundary."]\nnotify = ["10.0.0.2 key 2ndary"]\n', [
        ":7: [zone hobbit] transfer: 'key secundary.': unknown [[key]] 'secundary.'. Perhaps you meant "
        "'secondary'?",
        ":8: [zone hobbit] notify: '10.0.0.2 key 2ndary': unknown [[key]] '2ndary'. Perhaps you meant 'secondary'?",
    ]),
    ("a key without any", ZONE + 'transfer = ["10.0.0.0/8 key k"]\n', [
        ":4: [zone hobbit] transfer: '10.0.0.0/8 key k': unknown [[key]] 'k'; the configuration has no [[key]]",
    ]),
    ("telling a name", ZONE + 'notify = ["ns2.example"]\n', [
        ":4: [zone hobbit] notify: 'ns2.example': a secondary must be an address, such as 192.0.2.1:53, not a name",
    ]),
    ("telling nobody", ZONE + 'notify = ["0.0.0.0", "224.0.0.1", "10.0.0.2:0"]\n', [
        f":4: [zone hobbit] notify: '{text}' is not a host's address; write, for example, 192.0.2.1:53"
        for text in ("0.0.0.0", "224.0.0.1", "10.0.0.2:0")
    ]),
    ("telling a network", ZONE + 'notify = ["10.0.0.0/8"]\n', [
        ":4: [zone hobbit] notify: '10.0.0.0/8' is not a HOST:PORT pair such as 127.0.0.1:53",
    ]),
    ("too many words", ZONE + 'notify = ["10.0.0.2 with key"]\n', [
        ":4: [zone hobbit] notify: '10.0.0.2 with key' must be an address, with a port and a key if needed: "
        "'10.0.0.2', '[2001:db8::1]:53' or '10.0.0.2 key NAME'",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "findings"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_each_mistake_is_said_with_its_line(load: Load, tmp_path: Path, text: str, findings: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert [finding.replace(f"{tmp_path}/gone", "FOLDER/gone") for finding in caught.value.findings] == [
        f"{tmp_path}/lbdns.toml{finding}" for finding in findings
    ]


@pytest.mark.parametrize("value", ['"tru%stno1"', '""', "123454321", "true", '["tru%stno1"]', "nan", '"c2hvcnQ"'])
def test_a_bad_secret_is_not_quoted(load: Load, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(ZONE + f'[[key]]\nname = "n"\nsecret = {value}\n')
    (finding,) = caught.value.findings
    assert finding.partition(": ")[2].startswith("[key n] secret: ")
    for secret in ("tru%stno1", "123454321", "c2hvcnQ", "nan"):
        assert secret not in finding


@pytest.mark.parametrize("content", [b"", b"tru%stno1", b"\xff\xfe", b"A" * 9000, b"\n\n"])
def test_a_bad_secret_file_is_not_quoted(load: Load, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tsig.key").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(ZONE + '[[key]]\nname = "n"\nsecret_file = "tsig.key"\n')
    (finding,) = caught.value.findings
    assert "[key n] secret_file: " in finding
    assert "tru%stno1" not in finding
    assert len(finding) < 300 + len(os.fspath(tmp_path))
