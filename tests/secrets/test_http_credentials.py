"""Tests of passwords and tokens: the files that contain them, and the headers that transmit them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.config.web_section import WebConfig
from lbdns.secrets.http_credentials import NO_CREDENTIALS, HttpCredentials, parse_tokens, read_credentials
from lbdns_shared.errors import ConfigError

BOTH = HttpCredentials("sam", "po:tatoes", ("abc123", "older"))


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer abc123", "bearer older", basic("sam:po:tatoes"), basic("anybody:abc123"), basic(":older"),
    ],
)  # fmt: skip
def test_good_headers(header: str) -> None:
    assert BOTH.accept(header)


@pytest.mark.parametrize(
    "header",
    [
        "", "Bearer", "Bearer ", "Bearer abc12", "Bearer abc1234", "Bearer po:tatoes", "abc123", "Digest abc123",
        basic("sam:"), basic("sam"), basic(":po:tatoes"), basic("frodo:po:tatoes"), basic("sam:po:tatoes "),
        basic("sam:potatoes"), "Basic ????", "Basic /w==", basic(""), basic(":"), "Bearer é", "Basic é",
        "Bearer \udcff", "Basic \udcff",
    ],
)  # fmt: skip
def test_bad_headers(header: str) -> None:
    assert not BOTH.accept(header)


@given(st.sampled_from(["", "Bearer ", "Basic "]), st.text(st.characters()))
def test_no_header_raises_an_error(scheme: str, rest: str) -> None:
    """HTTP headers that are not UTF-8 contain surrogates."""
    assert not BOTH.accept(scheme + rest) or rest.strip() in BOTH.tokens
    assert HttpCredentials("sam", "x", ("t",), ("steerer",)).steerer(scheme + rest) in ("", "steer token 1")


@pytest.mark.parametrize("header", ["", "Bearer ", basic(":"), basic(""), basic("x:")])
def test_nothing_configured_accepts_nothing(header: str) -> None:
    assert not NO_CREDENTIALS.accept(header)
    assert not HttpCredentials("sam", "x").accept(header)
    assert not HttpCredentials(tokens=("x",)).accept(header)


@pytest.mark.parametrize("credentials", [BOTH, HttpCredentials("sam", "pö"), HttpCredentials(tokens=("t",))])
def test_our_own_header_is_accepted(credentials: HttpCredentials) -> None:
    assert credentials
    assert credentials.accept(credentials.header())


def test_nothing_to_send() -> None:
    assert not NO_CREDENTIALS
    assert NO_CREDENTIALS.header() == ""


def test_secrets_are_not_shown() -> None:
    assert "tatoes" not in repr(BOTH)
    assert "abc123" not in repr(BOTH)


def secret(folder: Path, text: str, mode: int = 0o600) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "secret"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_files(tmp_path: Path) -> None:
    password = secret(tmp_path, "pass word\n")
    tokens = tmp_path / "tokens"
    tokens.write_text("\n one \n\ntwo==\n")
    tokens.chmod(0o644)
    found, warnings = read_credentials(WebConfig(user="sam", password_file=password, token_file=tokens))
    assert found == HttpCredentials("sam", "pass word", ("one", "two=="))
    (warning,) = warnings
    assert warning.startswith(f"{tokens}: [web] token_file: mode 0644 lets other users read it")
    assert read_credentials(WebConfig()) == (NO_CREDENTIALS, [])


@pytest.mark.parametrize("text", ["", "\n", "one\nse cret!\n"])
def test_no_password(tmp_path: Path, text: str) -> None:
    path = secret(tmp_path, text)
    with pytest.raises(
        ConfigError, match=r"\[web\] password_file: the file (is empty|contains more than one line)"
    ) as raised:
        read_credentials(WebConfig(user="sam", password_file=path))
    assert str(path) in str(raised.value)
    assert "se cret!" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [("", "the file is empty"), (" \n", "the file is empty"), ("ok\nto ken\n", "token 2 is not valid")],
)
def test_no_token(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=rf"^here: {what}") as raised:
        parse_tokens(text, "here")
    assert "to ken" not in str(raised.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing: cannot read the \[web\] token_file: No such file"):
        read_credentials(WebConfig(token_file=tmp_path / "nothing"))


@pytest.mark.parametrize("key", ["token_file", "steer_token_file"])
def test_short_tokens_that_permit_steering_are_warned_of(tmp_path: Path, key: str) -> None:
    path = secret(tmp_path, f"{'a' * 16}\nsesame\n")
    web = (
        WebConfig(steer=True, token_file=path) if key == "token_file" else WebConfig(steer=True, steer_token_file=path)
    )
    _, warnings = read_credentials(web)
    assert warnings == [
        f"{path}: [web] {key}: token 2 is short enough to be guessed, and it permits steering; "
        "generate one with 'openssl rand -hex 32'"
    ]
    assert read_credentials(WebConfig(token_file=path))[1] == []
    both = WebConfig(steer=True, token_file=path, steer_token_file=secret(tmp_path / "other", "b" * 16))
    assert read_credentials(both)[1] == []


def test_steer_tokens_permit_reading_too_and_others_do_not_permit_steering() -> None:
    both = HttpCredentials("sam", "potatoes", ("reader",), ("other", "steerer"))
    steerer, reader = (HttpCredentials(tokens=(token,)).header() for token in ("steerer", "reader"))
    sam = HttpCredentials("sam", "potatoes").header()
    assert [both.accept(header) for header in (steerer, reader, sam, "")] == [True, True, True, False]
    assert [both.steerer(header) for header in (steerer, reader, sam, "")] == ["steer token 2", "", "", ""]
    assert [HttpCredentials("sam", "potatoes", ("reader",)).steerer(header) for header in (steerer, reader, sam)] == [
        "",
        "token 1",
        "sam",
    ]
    assert not HttpCredentials(steer_tokens=("steerer",)), "reading needs no credentials"
