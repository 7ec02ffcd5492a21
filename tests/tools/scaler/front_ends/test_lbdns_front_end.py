"""What the scaler concludes from lbdns's status, and what it orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.front_ends.front_end import FrontEndError, FrontEndServer
from lbdns_tools.scaler.front_ends.lbdns_front_end import LbdnsFrontEnd, front_end_server

OWN = {"kind": "drain", "reason": "lbdns-scaler: 12 requests/s need 2 servers"}
OPERATORS = {"kind": "drain", "reason": "new kernel"}


def member(state: str = "usable", *overrides: Mapping[str, str], **more: Any) -> dict[str, Any]:
    return {"state": state, "overrides": list(overrides), "gone": False, "metrics": {"busy_workers": 3.0}, **more}


@pytest.mark.parametrize(
    ("document", "elsewhere", "expected"),
    [
        (member(), [], FrontEndServer(True, False, 2.0)),
        (member("silent"), [], FrontEndServer(False, False, None)),
        (member("silent", gone=True), [], FrontEndServer(False, False, 0.0)),
        (member("alarm"), [], FrontEndServer(False, False, 2.0)),
        (member("drained", OWN), [], FrontEndServer(False, True, 2.0)),
        (member("drained", OWN), [member("drained")], FrontEndServer(False, True, 2.0)),
        # A follower that has not received the drain yet still sends clients
        (member("drained", OWN), [member("usable")], FrontEndServer(False, False, 2.0)),
        (member("drained", OPERATORS), [], FrontEndServer(False, False, 2.0, held=True)),
        (member("alarm", {"kind": "down", "reason": ""}), [], FrontEndServer(False, False, 2.0, held=True)),
        (member("usable", {"kind": "weight", "reason": ""}), [], FrontEndServer(True, False, 2.0)),
        (member(metrics={}), [], FrontEndServer(True, False, None)),
    ],
)
def test_servers(document: dict[str, Any], elsewhere: list[dict[str, Any]], expected: FrontEndServer) -> None:
    assert front_end_server(document, elsewhere) == expected


class FakeReader:
    """A status reader with fixed members."""

    pool = "web"

    def __init__(self, members: Mapping[str, Mapping[str, Any]] | LbdnsError) -> None:
        self._members = members

    async def members(self) -> Mapping[str, Mapping[str, Any]]:
        if isinstance(self._members, LbdnsError):
            raise self._members
        return self._members


class FakeSender:
    """Records the commands."""

    def __init__(self, error: str = "") -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._error = error

    def __call__(self, command: str, **words: Any) -> None:
        if self._error:
            raise LbdnsError(self._error)
        self.sent.append((command, words))


def front_end(sender: FakeSender, *readers: FakeReader) -> LbdnsFrontEnd:
    return LbdnsFrontEnd(readers[0], readers[1:], sender)  # type: ignore[arg-type]


async def test_drains_carry_their_reason_and_pool() -> None:
    sender = FakeSender()
    await front_end(sender, FakeReader({})).drain("web-1", "x" * 300)
    assert sender.sent == [("drain", {"pool": "web", "member": "web-1", "reason": "lbdns-scaler: " + "x" * 186})]


async def test_a_new_host_is_drained_before_it_joins() -> None:
    sender = FakeSender()
    await front_end(sender, FakeReader({})).hold_back("web-1")
    words = {
        "pool": "web",
        "member": "web-1",
        "ahead": True,
        "reason": "lbdns-scaler: held back until its checks are done",
    }
    assert sender.sent == [("drain", words)]
    with pytest.raises(FrontEndError, match="cannot join"):
        await front_end(FakeSender("it cannot join"), FakeReader({})).hold_back("web-1")


async def test_the_drain_of_a_host_that_never_joined_ends() -> None:
    sender = FakeSender()
    await front_end(sender, FakeReader({})).remove("web-1")
    assert sender.sent == [("undrain", {"pool": "web", "member": "web-1"})]
    await front_end(FakeSender("not drained"), FakeReader({})).remove("web-1")


async def test_only_own_drains_end() -> None:
    sender = FakeSender()
    members = {"web-1": member("drained", OWN), "web-2": member("drained", OPERATORS), "web-3": member()}
    front = front_end(sender, FakeReader(members))
    for name in ("web-1", "web-2", "web-3", "web-4"):
        await front.undrain(name)
    assert [words["member"] for _, words in sender.sent] == ["web-1"]
    await front.remove("web-1")
    assert len(sender.sent) == 2


async def test_one_dns_server_that_does_not_respond_is_an_error() -> None:
    front = front_end(FakeSender(), FakeReader({}), FakeReader(LbdnsError("no response")))
    with pytest.raises(FrontEndError, match="no response"):
        await front.servers()


async def test_a_refused_drain_is_an_error() -> None:
    with pytest.raises(FrontEndError, match="the last usable member"):
        await front_end(FakeSender("the last usable member"), FakeReader({})).drain("web-1", "a test")
