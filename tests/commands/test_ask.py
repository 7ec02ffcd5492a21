"""Tests of ``lbdns ask``: arguments in any order, and the printed response."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from lbdns.command_line.run_command import run
from lbdns.commands.ask import ask, read_words
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from tests.client.dns_servers import framed, scripted_server
from tests.client.test_dns_client import response


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    exit_status = run(ask, "lbdns ask", arguments)
    captured = capsys.readouterr()
    return exit_status, captured.out, captured.err


@pytest.mark.parametrize("words", [*itertools.permutations(["best.hobbit", "@10.0.0.5:5300", "+TCP", "+short"])])
def test_words_in_any_order(words: tuple[str, ...]) -> None:
    question = read_words([*words, "aaaa"])
    assert (question.name, question.rtype, question.rclass) == ("best.hobbit", "AAAA", "IN")
    assert question.server == Endpoint("10.0.0.5", 5300)
    assert question.options == {"+tcp", "+short"}


@pytest.mark.parametrize(
    ("words", "name", "rtype", "rclass", "server"),
    [
        (["best.hobbit"], "best.hobbit", "A", "IN", None),
        (["txt"], "txt", "A", "IN", None),
        (["version.bind", "TXT", "CH", "@::1"], "version.bind", "TXT", "CH", Endpoint("::1", 53)),
        (["best.hobbit", "type65280", "@[::1]:5300"], "best.hobbit", "TYPE65280", "IN", Endpoint("::1", 5300)),
    ],
)
def test_what_words_mean(words: list[str], name: str, rtype: str, rclass: str, server: Endpoint | None) -> None:
    question = read_words(words)
    assert (question.name, question.rtype, question.rclass, question.server) == (name, rtype, rclass, server)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["@10.0.0.5"], "no name was given"),
        (["best.hobbit", "AAA"], "'AAA' is not a record type. Perhaps you meant 'AAAA'?"),
        (["best.hobbit", "TYPE70000"], "'TYPE70000' is not a record type"),
        (["best.hobbit", "+tpc"], "unknown option +tpc. Perhaps you meant '+tcp'?"),
        (["best.hobbit", "@a", "@b"], "specify only one server, not @a and @b"),
        (["best.hobbit", "@10.0.0.5:x"], "@10.0.0.5:x: '10.0.0.5:x': the port must be a number"),
    ],
)
def test_words_that_mean_nothing(words: list[str], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_words(words)
    assert error in str(raised.value)


def test_an_address_becomes_the_name_of_its_pointer_record() -> None:
    assert read_words(["127.0.0.16"], reverse=True).name == "16.0.0.127.in-addr.arpa"
    assert read_words(["127.0.0.16"], reverse=True).rtype == "PTR"
    with pytest.raises(ConfigError, match=r"'best\.hobbit' is not an IP address"):
        read_words(["best.hobbit"], reverse=True)


def test_the_response_as_dig_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_server(lambda query: [response(query)]) as server:
        exit_status, out, err = asked(capsys, "best.hobbit", f"@{server.endpoint}")
    assert (exit_status, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["best.hobbit.", "0", "IN", "CNAME", "gandalf.hobbit."] in lines
    assert ["gandalf.hobbit.", "0", "IN", "A", "192.0.2.3"] in lines
    assert "status: NOERROR" in out
    assert f";; {server.endpoint} (UDP), " in out


def test_data_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_server(lambda _: [], lambda query: framed(response(query))) as server:
        assert asked(capsys, "+short", "best.hobbit", "+tcp", f"@{server.endpoint}") == (
            0, "gandalf.hobbit.\n192.0.2.3\n", "",
        )  # fmt: skip


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    records = "best.hobbit. 0 IN TYPE65280 \\# 2 0102"
    with scripted_server(lambda query: [response(query, records)]) as server:
        exit_status, out, _ = asked(capsys, "best.hobbit", "TYPE65280", "--json", f"@{server.endpoint}")
    assert exit_status == 0
    document = json.loads(out)
    assert document["status"] == "NOERROR"
    assert document["transport"] == "UDP"
    assert document["flags"] == ["qr", "aa", "rd", "ra"]
    assert document["question"] == [{"name": "best.hobbit.", "type": "TYPE65280", "class": "IN"}]
    (record,) = document["answer"]
    assert (record["name"], record["ttl"], record["class"], record["type"]) == ("best.hobbit.", 0, "IN", "TYPE65280")
    assert "additional" in document


def test_no_response(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_server(lambda _: []) as server:
        exit_status, out, err = asked(capsys, "best.hobbit", "--timeout", "0.01", f"@{server.endpoint}")
    assert (exit_status, out) == (1, "")
    assert err == f"{server.endpoint}: no response to the query after 3 tries of 0.01 s each\n"


def test_a_bad_name(capsys: pytest.CaptureFixture[str]) -> None:
    exit_status, _, err = asked(capsys, "a..b", "@127.0.0.1")
    assert exit_status == 2
    assert "'a..b' is not a valid domain name" in err


def test_the_configuration_says_which_server(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_server(lambda query: [response(query)]) as server:
        path = tmp_path / "lbdns.toml"
        path.write_text(f'[server]\nlisten = ["{server.endpoint}"]\n[[zone]]\nname = "hobbit"\nfile = "x"\n')
        assert asked(capsys, "best.hobbit", "+short", "-c", str(path))[0] == 0
        monkeypatch.setenv("LBDNS_CONFIG", str(path))
        assert asked(capsys, "best.hobbit", "+short") == (0, "gandalf.hobbit.\n192.0.2.3\n", "")
