"""The reader of lbdns's status: the members in the document, the number of requests, and malformed documents."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from lbdns.client.http_client import HttpLocation
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.scaler.demand import status_reader
from lbdns_tools.scaler.demand.status_reader import StatusReader, server_location

MEMBER = {
    "name": "web-1", "state": "usable", "gone": False, "metrics": {"cpu_idle": 40.0}, "age_s": 0.2, "interval_s": 1.0,
    "capacity": None, "overrides": [{"kind": "drain", "reason": "new kernel"}],
}  # fmt: skip


def body_of(*members: Any, name: str = "web") -> bytes:
    return json.dumps({"pools": [{"name": name, "measured": True, "members": members}]}).encode()


class Server:
    """Replaces the HTTP request, and counts the requests."""

    def __init__(self, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        self.body, self.requests = body, 0
        monkeypatch.setattr(status_reader, "fetch", self._fetch)

    def _fetch(self, server: HttpLocation, path: str) -> bytes:
        self.requests += 1
        return self.body


def reader() -> StatusReader:
    return StatusReader(HttpLocation("http://192.0.2.53:8053"), "web")


async def test_a_document_is_read_once_for_all_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_reader, "FRESH", 60.0)  # however long a busy machine takes
    server, status = Server(body_of(MEMBER), monkeypatch), reader()
    first, second = await asyncio.gather(status.members(), status.members())
    assert first == second == {"web-1": {**MEMBER, "measured": True}}
    assert server.requests == 1
    monkeypatch.setattr(status_reader, "FRESH", 0.0)
    await status.members()
    assert server.requests == 2


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"5", b'{"pools": 5}', b'{"pools": [5]}', b"[" * 100_000, b"\xff", body_of(5), body_of("web-1"),
        *(body_of({key: value for key, value in MEMBER.items() if key != absent}) for absent in MEMBER),
        *(body_of({**MEMBER, key: value}) for key, value in (("metrics", []), ("overrides", {}), ("age_s", "new"))),
        body_of({**MEMBER, "metrics": {"busy_workers": "many"}}), body_of({**MEMBER, "overrides": [{"kind": "drain"}]}),
    ],
)  # fmt: skip
async def test_other_answers_are_errors(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    Server(body, monkeypatch)
    with pytest.raises(LbdnsError, match=r"http://192\.0\.2\.53:8053: the response is not from lbdns"):
        await reader().members()


async def test_an_unknown_pool_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(body_of(MEMBER, name="mail"), monkeypatch)
    with pytest.raises(LbdnsError, match="there is no pool 'web'; the server's pools: mail"):
        await reader().members()


def test_the_token_comes_from_the_file_or_else_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LBDNS_TOKEN", "of-the-environment")
    file = tmp_path / "token"
    file.write_text("of-the-file\n")
    file.chmod(0o600)
    url = "http://192.0.2.53:8053"
    assert server_location(url, file).credentials.header() == "Bearer of-the-file"
    assert server_location(url, None).credentials.header() == "Bearer of-the-environment"
    with pytest.raises(ConfigError, match="token_file"):
        server_location(url, tmp_path / "missing")
