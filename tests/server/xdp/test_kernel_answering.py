"""Tests of the owner of the program in the kernel: interfaces, addresses, lease, failures and status."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.message_writer import Variant
from lbdns.answering.responder import Responder
from lbdns.config import ServerConfig
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm
from lbdns.server.xdp.kernel_answering import LEASE, KernelAnswering
from lbdns.server.xdp.kernel_answers import KernelAnswers
from lbdns.server.xdp.kernel_errors import KernelError
from lbdns.server.xdp.own_addresses import InterfaceAddresses
from lbdns.server.xdp.table_layouts import LimitRules
from lbdns_shared.endpoint import parse_listen
from tests.answering.asking import client, make_query
from tests.answering.farms import hobbit, pool
from tests.server.clients import until
from tests.server.xdp.fake_tables import FakeProgram

MAC = bytes(range(6))
NUMBERS = {"eth0": 2, "eth1": 3}
FARM = hobbit(pool(coherence=0))


def farm_with(**server: Any) -> Farm:
    changed = replace(ServerConfig(), **{"xdp": tuple(NUMBERS), **server})
    return replace(FARM, config=replace(FARM.config, server=changed))


class Kernel:
    """A ``KernelAnswering`` with fake programs, and the addresses of the interfaces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, farm: Farm, busy: Sequence[int] = ()) -> None:
        self.farm = farm
        self.programs: list[FakeProgram] = []
        self.addresses = {"eth0": ["192.0.2.1"], "eth1": ["198.51.100.1"]}
        self.refusal: KernelError | None = None
        self._busy = busy
        monkeypatch.setattr("lbdns.server.xdp.kernel_answering.read_interfaces", self._interfaces)
        monkeypatch.setattr(socket, "if_nametoindex", self._number)
        # Program links have real descriptors, but no kernel
        monkeypatch.setattr("lbdns.server.xdp.program_link.ProgramLink.is_attached", lambda _: True)
        self.answering = KernelAnswering(farm.config, EventLog(), self._load)
        self.table = AnswerTable(farm)
        self.responder = Responder(self.table)

    def _load(self, rules: LimitRules, cut: Sequence[Variant]) -> KernelAnswers:
        if self.refusal:
            raise self.refusal
        self.programs.append(FakeProgram(rules, self._busy))
        return cast(KernelAnswers, self.programs[-1])

    def _interfaces(self, names: Sequence[str]) -> list[InterfaceAddresses]:
        return [InterfaceAddresses(NUMBERS[name], MAC, self.addresses[name]) for name in names]

    @staticmethod
    def _number(name: str) -> int:
        if name not in NUMBERS:
            raise OSError("no such device")
        return NUMBERS[name]

    @property
    def program(self) -> FakeProgram:
        (program,) = self.programs
        return program

    def begin(self, inherited: dict[str, int] | None = None) -> None:
        self.answering.open(self.farm.config, inherited or {})
        self.answering.begin(self.table)

    def ask(self, name: str) -> bool:
        """Ask, and return whether the kernel has answered."""
        query = make_query(name)
        if self.program.respond(query):
            return True
        self.responder.respond(query, client())
        return False

    @property
    def faults(self) -> dict[str, str]:
        document = self.answering.document
        assert document is not None
        assert all(each["answers"] == (not each["fault"]) for each in document["interfaces"])
        return {each["name"]: each["fault"] for each in document["interfaces"] if each["fault"]}


async def test_it_answers_on_each_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, farm_with())
    kernel.begin()
    assert [link.interface for link in kernel.program.links] == [2, 3]
    assert kernel.program.published == {("192.0.2.1", 53, 2, MAC), ("198.51.100.1", 53, 3, MAC)}
    assert [kernel.ask("bilbo.hobbit") for _ in range(3)] == [False, True, True]
    assert kernel.answering.document == {
        "answers": 2,
        "interfaces": [{"name": name, "answers": True, "fault": ""} for name in NUMBERS],
    }
    assert kernel.answering.counters() == {"kernel_answers": 2, "rate_limit_dropped": 3, "rate_limit_cut": 2}
    counts, seconds = kernel.answering.times()
    assert (sum(counts), seconds) == (7, 0.0), "responses, and queries that the rate limit dropped"
    kernel.answering.close()
    assert kernel.program.is_closed
    assert all(link.is_closed for link in kernel.program.links)
    assert kernel.answering.counters()["kernel_answers"] == 2, "also afterwards"
    assert kernel.table.queries() == {("hobbit", 1, "udp", 0): 3}


async def test_without_interfaces_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, farm_with(xdp=()))
    kernel.begin()
    assert kernel.programs == []
    assert kernel.answering.document is None
    assert kernel.table.follower is None
    kernel.answering.close()


async def test_the_addresses_of_an_interface_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns.server.xdp.kernel_answering.COUNTING", 0.001)
    listen = (parse_listen("0.0.0.0:53", 53), parse_listen("0.0.0.0:5353", 53))
    kernel = Kernel(monkeypatch, farm_with(xdp=("eth0",), listen=listen))
    kernel.begin()
    kernel.addresses["eth0"] = ["192.0.2.7"]
    await until(lambda: kernel.program.published == {("192.0.2.7", port, 2, MAC) for port in (53, 5353)})
    kernel.answering.close()


async def test_the_lease_is_renewed_and_selections_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns.server.xdp.kernel_answering.COUNTING", 0.001)
    kernel = Kernel(monkeypatch, farm_with())
    kernel.begin()
    for _ in range(7):
        kernel.ask("round.robin.hobbit")
    kernel.program.lease = 0.0
    await until(lambda: kernel.program.lease == LEASE)
    await until(lambda: sum(kernel.table.cursors["web", "round_robin"].totals()) == 7)
    kernel.answering.end()
    assert kernel.program.lease == 0.0
    kernel.answering.close()


async def test_a_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, farm_with())
    kernel.begin()
    assert [kernel.ask("bilbo.hobbit") for _ in range(2)] == [False, True]
    kernel.answering.end()
    assert kernel.program.lease == 0.0
    assert kernel.program.questions == {}
    limits = replace(FARM.config.rate_limit, responses_per_second=7)
    new = replace(kernel.farm, config=replace(kernel.farm.config, rate_limit=limits))
    kernel.table = AnswerTable(new)
    kernel.responder.use(kernel.table)
    kernel.answering.begin(kernel.table)
    assert kernel.program.rules.limit == 7
    assert kernel.program.lease == LEASE
    assert [kernel.ask("bilbo.hobbit") for _ in range(2)] == [False, True]
    kernel.answering.close()


async def test_answers_that_were_known_before_are_published_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, farm_with())
    kernel.responder.respond(make_query("bilbo.hobbit"), client())
    kernel.begin()
    assert kernel.ask("bilbo.hobbit")
    kernel.answering.close()


REFUSALS = {
    "cannot load": ({}, (), KernelError("cannot load"), {"eth0": "cannot load", "eth1": "cannot load"}),
    "busy": ({}, (2,), None, {"eth0": "another XDP program is attached"}),
    "unknown": (
        {"xdp": ("eth1", "eth7")}, (), None, {"eth7": "there is no such network interface; 'ip link' lists them"},
    ),
    "workers": (
        {"workers": 2, "xdp": ("eth0",)}, (), None, {"eth0": "answers in the kernel require workers = 1, not 2"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("server", "busy", "refusal", "faults"), REFUSALS.values(), ids=REFUSALS)
async def test_whatever_fails_the_sockets_answer(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    server: dict[str, object],
    busy: Sequence[int],
    refusal: KernelError | None,
    faults: dict[str, str],
) -> None:
    caplog.set_level(logging.WARNING)
    kernel = Kernel(monkeypatch, farm_with(**server), busy)
    kernel.refusal = refusal
    kernel.begin()
    assert kernel.faults == faults
    assert caplog.messages == [
        f"lbdns.toml: [server] xdp: {name}: {why}; the sockets answer instead" for name, why in faults.items()
    ]
    kernel.answering.close()


async def test_a_program_that_no_interface_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, farm_with(), busy=(2, 3))
    kernel.begin()
    assert kernel.program.is_closed
    assert kernel.table.follower is None


async def test_the_end_of_the_verifier_s_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    kernel = Kernel(monkeypatch, farm_with(xdp=("eth0",)))
    kernel.refusal = KernelError("refused", "\n".join(f"line {number}" for number in range(1000)))
    kernel.begin()
    assert len(caplog.messages) == 21
    assert caplog.messages[-1] == "xdp: the kernel's verifier: line 999"


async def test_an_interface_that_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns.server.xdp.kernel_answering.COUNTING", 0.001)
    kernel = Kernel(monkeypatch, farm_with())
    kernel.begin()
    kernel.program.links[0].is_gone = True
    await until(lambda: "the interface is gone" in kernel.faults.get("eth0", ""))
    assert kernel.program.links[0].is_closed
    assert kernel.program.published == {("198.51.100.1", 53, 3, MAC)}
    kernel.answering.close()


@pytest.mark.parametrize("when", ["asked", "reloaded"])
async def test_tables_that_cannot_be_changed(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """The kernel must not go on with what it has: its answers may have become wrong."""
    kernel = Kernel(monkeypatch, farm_with())
    kernel.begin()
    kernel.ask("bilbo.hobbit")
    kernel.program.failure = KernelError("not permitted")
    if when == "asked":
        kernel.ask("mail.hobbit")
    else:
        kernel.answering.end()
        kernel.answering.begin(kernel.table)
    assert kernel.program.is_closed
    assert all(link.is_closed for link in kernel.program.links)
    assert set(kernel.faults) == {"eth0", "eth1"}
    assert "not permitted" in kernel.faults["eth0"]
    assert kernel.responder.respond(make_query("gandalf.hobbit"), client())
    kernel.answering.end()
    kernel.answering.begin(AnswerTable(kernel.farm))
    await asyncio.sleep(0)


async def test_links_of_the_server_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The link of an interface that is no longer configured is closed."""
    kernel = Kernel(monkeypatch, farm_with())
    links = {name: os.open("/dev/null", os.O_RDONLY) for name in ("eth0", "eth9")}
    kernel.begin(links)
    assert kernel.program.taken == [links["eth0"]]
    assert [link.interface for link in kernel.program.links] == [3]
    assert {name: link.fileno() for name, link in kernel.answering.links.items()}["eth0"] == links["eth0"]
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(links["eth9"])
    kernel.answering.close()


async def test_a_take_over_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process may have changed the links over to its own program, which answers no longer."""
    kernel = Kernel(monkeypatch, farm_with())
    kernel.begin()
    kernel.answering.take_back()
    assert kernel.program.taken == [link.fileno() for link in kernel.program.links]
    assert kernel.faults == {}
    kernel.program.failure = KernelError("not permitted")
    kernel.answering.take_back()
    assert set(kernel.faults) == set(NUMBERS)
    assert kernel.program.is_closed


async def test_a_take_over_that_fails_without_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, farm_with(xdp=()))
    kernel.begin()
    kernel.answering.take_back()
    assert kernel.programs == []
