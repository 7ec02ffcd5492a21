"""Tests of nkeys: files, signatures, and a machine without the package that signs."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from lbdns_shared.errors import ConfigError
from lbdns_shared.nkey import Nkey, read_nkey
from lbdns_shared.nkey_format import parse_user_seed

#: The example in the documentation of NATS
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
NKEY = Nkey(parse_user_seed(SEED))


def seed_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "user.nk"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_public_key() -> None:
    assert NKEY.public_key == PUBLIC


def test_a_signature_is_valid() -> None:
    signature = base64.urlsafe_b64decode(NKEY.sign("Xh4k_nonce") + "==")
    raw = base64.b32decode(PUBLIC)[1:33]
    Ed25519PublicKey.from_public_bytes(raw).verify(signature, b"Xh4k_nonce")


def test_the_representation_contains_no_seed() -> None:
    assert repr(NKEY) == "Nkey()"


@pytest.mark.parametrize("text", [SEED, f"{SEED}\n", f"# of gandalf\n\n  {SEED}  \n# {PUBLIC}\n"])
def test_a_file(tmp_path: Path, text: str) -> None:
    assert read_nkey(seed_file(tmp_path, text), "nkey file", "install it") == (NKEY, [])


def test_other_users_can_read_the_file(tmp_path: Path) -> None:
    path = seed_file(tmp_path, SEED, 0o644)
    nkey, [warning] = read_nkey(path, "nkey file", "install it")
    assert nkey == NKEY
    assert warning == f"{path}: nkey file: mode 0644 lets other users read it; run 'chmod 600 {path}'"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "must contain one line with the seed of an nkey"),
        ("# none\n", "must contain one line with the seed of an nkey"),
        (f"{SEED}\n{PUBLIC}\n", "must contain one line with the seed of an nkey"),
        (PUBLIC, "nkey file: the key is a public key"),
        (SEED[:-2], "nkey file: the key's checksum is wrong"),
    ],
)
def test_errors(tmp_path: Path, text: str, fault: str) -> None:
    path = seed_file(tmp_path, text)
    with pytest.raises(ConfigError, match=fault) as caught:
        read_nkey(path, "nkey file", "install it")
    assert str(caught.value).startswith(f"{path}: nkey file: ")
    assert SEED[4:20] not in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none: cannot read the nkey file: No such file"):
        read_nkey(tmp_path / "none", "nkey file", "install it")
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\x00")
    with pytest.raises(ConfigError, match="the nkey file is not a text file; check that this is a file with the seed"):
        read_nkey(path, "nkey file", "install it")


def test_the_package_that_signs_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    path = seed_file(tmp_path, SEED)
    with pytest.raises(ConfigError, match=r"user\.nk: nkey file: nkeys require the package cryptography; install it$"):
        read_nkey(path, "nkey file", "install it")


def test_the_package_cannot_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: bytes) -> Ed25519PrivateKey:
        raise RuntimeError("not permitted")

    monkeypatch.setattr(Ed25519PrivateKey, "from_private_bytes", refuse)
    with pytest.raises(ConfigError, match="can't sign with Ed25519: not permitted"):
        read_nkey(seed_file(tmp_path, SEED), "nkey file", "install it")
