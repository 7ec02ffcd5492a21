"""Targets and their weights."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.request_mix import MAX_ERRORS, RequestMix, RequestTarget, file_set, one_url, parse_url, read_urls


@pytest.mark.parametrize(
    ("text", "target", "authority"),
    [
        ("http://best.hobbit", RequestTarget("best.hobbit", 80, "/"), "best.hobbit"),
        ("http://best.hobbit:8080/a/b?c=d", RequestTarget("best.hobbit", 8080, "/a/b?c=d"), "best.hobbit:8080"),
        ("http://127.0.0.16:8080?x", RequestTarget("127.0.0.16", 8080, "/?x"), "127.0.0.16:8080"),
        ("HTTP://BEST.Hobbit/A#here", RequestTarget("best.hobbit", 80, "/A"), "best.hobbit"),
        ("http://[::1]:81/", RequestTarget("::1", 81, "/"), "[::1]:81"),
    ],
)
def test_urls(text: str, target: RequestTarget, authority: str) -> None:
    assert parse_url(text) == target
    assert target.authority == authority
    assert parse_url(str(target)) == target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best.hobbit", "write http://HOST"),
        ("best.hobbit:8080/x", "write http://HOST"),
        ("ftp://best.hobbit/", "the scheme ftp is not supported"),
        ("http://", "the host is missing"),
        ("http:///x", "the host is missing"),
        ("http://me@best.hobbit/", "the URL must not contain a user name"),
        ("http://best.hobbit:0/", "must not be 0"),
        ("http://best.hobbit:99999/", "is not a valid URL: Port out of range"),
        ("http://best.hobbit:x/", "is not a valid URL"),
        ("http://[::1/", "is not a valid URL"),
        ("http://best.hobbit/a b", "as %XX"),
        ("http://best.hobbit/a\r\nX: y", "as %XX"),
        ("http://best.hobbit/ä", "as %XX"),
        ("", "write http://HOST"),
    ],
)
def test_what_is_no_url(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_url(text)


@given(st.text(max_size=40) | st.from_regex(r"http://\S{0,20}", fullmatch=True))
def test_any_text_is_a_target_or_a_value_error(text: str) -> None:
    try:
        target = parse_url(text)
    except ValueError:
        return
    assert target.path.startswith("/")
    assert parse_url(str(target)) == target


def test_weights_are_followed() -> None:
    mix = file_set("html", "http://a/")
    choose = mix.chooser(Random(1))
    counted = Counter(choose().path for _ in range(100_000))
    for target in mix.targets:
        assert counted[target.path] == pytest.approx(100 * target.weight, rel=0.02, abs=40)


def test_the_same_chance_the_same_targets() -> None:
    mix = file_set("mixed", "http://a/")
    one, other = mix.chooser(Random(7)), mix.chooser(Random(7))
    assert [one() for _ in range(50)] == [other() for _ in range(50)]


def test_a_single_target_needs_no_chance() -> None:
    mix = one_url("http://a/x")
    assert mix == RequestMix("http://a/x", (RequestTarget("a", 80, "/x"),))
    assert mix.chooser(Random(1))() is mix.targets[0]


def test_webstones_files() -> None:
    html, cgi, mixed = (file_set(name, "http://a:81/ws/") for name in ("html", "cgi", "mixed"))
    assert [(t.path, t.weight, t.expect) for t in html.targets] == [
        ("/ws/file500.html", 350, 500),
        ("/ws/file5k.html", 500, 5_000),
        ("/ws/file50k.html", 140, 50_000),
        ("/ws/file500k.html", 9, 500_000),
        ("/ws/file5m.html", 1, 5_000_000),
    ]
    assert [t.path for t in cgi.targets][:2] == ["/ws/cgi-bin/file?size=500", "/ws/cgi-bin/file?size=5000"]
    assert [t.expect for t in cgi.targets] == [t.expect for t in html.targets]
    assert mixed.targets == html.targets + cgi.targets
    with pytest.raises(ValueError, match="Perhaps you meant 'html'"):
        file_set("htm", "http://a/")
    with pytest.raises(ValueError, match="must have no query string"):
        file_set("html", "http://a/?x=1")


def test_a_file_of_urls(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_text("# comment\n\nhttp://a/1\n  http://b:81/2   2.5\n")
    assert read_urls(path) == RequestMix("urls.txt", (RequestTarget("a", 80, "/1"), RequestTarget("b", 81, "/2", 2.5)))


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["urls.txt: the file contains no URL"]),
        ("# only\n", ["urls.txt: the file contains no URL"]),
        ("http://a/ 0\n\nhttp://b/ x\nftp://c/\nhttp://d/ 1 2\nhttp://e/ 1\n",
         ["urls.txt:1: the weight must be a number above 0 and at most 1e+09, not '0'",
          "urls.txt:3: the weight must be", "urls.txt:4: 'ftp://c/'", "urls.txt:5: only a URL and a weight"]),
        ("http://a/ -1\n" * 30, [f"and {30 - MAX_ERRORS} more"]),
    ],
)  # fmt: skip
def test_errors_of_a_file_of_urls(tmp_path: Path, text: str, messages: list[str]) -> None:
    path = tmp_path / "urls.txt"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_urls(path)
    for message in messages:
        assert message in str(error.value)
    assert len(error.value.findings) <= MAX_ERRORS + 1


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_urls(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_urls(tmp_path / "binary")
