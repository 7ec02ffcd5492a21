"""Farms with keys and zone transfer permits, and a secondary's queries, written by dnspython."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import dns.message
import dns.rrset
import dns.tsig

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.responder import Responder
from lbdns.config import KeyConfig, TransferPermit
from lbdns.model.farm import Farm
from tests.answering.farms import hobbit

KEY: Final = KeyConfig("secondary", "hmac-sha256", bytes(range(32)))
HOBBIT: Final = hobbit()  # read once: that takes longer than what is asked of it
EVERYBODY: Final = (TransferPermit(None),)


def with_secondaries(
    farm: Farm, transfer: Iterable[TransferPermit] = EVERYBODY, keys: Iterable[KeyConfig] = (KEY,)
) -> Farm:
    """Return the farm with these keys, and with these transfer permits for every zone."""
    zones = tuple(replace(zone, transfer=tuple(transfer)) for zone in farm.config.zones)
    return replace(farm, config=replace(farm.config, zones=zones, keys=tuple(keys)))


def responder_for(farm: Farm) -> Responder:
    """Return a responder whose clock shows the real time, because dnspython signs with the real time."""
    responder = Responder(AnswerTable(farm))
    responder.tick(0.0, time.time())
    return responder


def hobbit_responder(transfer: Iterable[TransferPermit] = EVERYBODY, keys: Iterable[KeyConfig] = (KEY,)) -> Responder:
    return responder_for(with_secondaries(HOBBIT, transfer, keys))


def dns_key(config: KeyConfig = KEY) -> dns.tsig.Key:
    return dns.tsig.Key(f"{config.name}.", config.secret, f"{config.algorithm}.")


def query_for(
    name: str = "hobbit",
    rtype: str = "AXFR",
    *,
    key: dns.tsig.Key | None = None,
    serial: int | None = None,
    payload: int | None = None,
    fudge: int = 300,
) -> dns.message.Message:
    """Return a query that is signed with ``key`` when it is encoded; ``serial`` is the client's serial for IXFR."""
    query = dns.message.make_query(name, rtype, flags=0)
    if payload is not None:
        query.use_edns(0, payload=payload)
    if serial is not None:
        query.authority.append(dns.rrset.from_text(f"{name}.", 0, "IN", "SOA", f". . {serial} 0 0 0 0"))
    if key is not None:
        query.use_tsig(key, fudge=fudge)
    return query
