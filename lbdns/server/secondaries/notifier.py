"""Sends NOTIFY messages (RFC 1996) to a zone's secondaries at startup and whenever the zone's serial changes."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lbdns.config import KeyConfig, NotifyTarget
from lbdns.model.farm import Farm
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.background_tasks import end_tasks
from lbdns.server.secondaries.zone_serials import SerialFile
from lbdns.server.server_configuration import ServeConfiguration
from lbdns.zones.master_file import Zone
from lbdns.zones.names import to_text
from lbdns_shared.endpoint import Endpoint

if TYPE_CHECKING:
    import dns.message

log = logging.getLogger("lbdns.server")

TRIES: Final = 5  # as RFC 1996 section 3.6 suggests
FIRST_WAIT: Final = 1.0  # s for an answer; each try waits twice as long as the one before: half a minute in all
AT_ONCE: Final = 64  # notifications in progress, each with a socket
_MAX_RESPONSE: Final = 4096  # bytes; a response to NOTIFY is hardly longer than its question

#: The origin of a zone, and a secondary
_Task = tuple[bytes, NotifyTarget]


class Notifier:
    """Sends each secondary a NOTIFY message until the secondary answers or TRIES attempts have failed."""

    def __init__(self, first_wait: float = FIRST_WAIT) -> None:
        self._first_wait = first_wait
        self._sent: dict[_Task, int] = {}  # the serial that was last sent, or is being sent
        self._running: dict[_Task, asyncio.Task[None]] = {}  # running, or the last to have ended
        self._at_once = asyncio.Semaphore(AT_ONCE)

    def reload(self, farm: Farm) -> None:
        """Notify each secondary that has not been notified of the current serial of its zone.

        The first call notifies all secondaries, because their copies may be out of date after a restart.
        """
        targets = {zone.name: zone.notify for zone in farm.config.zones}
        wanted = {(zone.origin, target): zone for zone in farm.zones.values() for target in targets.get(zone.name, ())}
        for gone in self._sent.keys() - wanted.keys():
            del self._sent[gone]
            self._cancel(gone)
        for task, zone in wanted.items():
            if self._sent.get(task) != zone.serial:
                self._cancel(task)
                self._sent[task] = zone.serial
                self._running[task] = asyncio.get_running_loop().create_task(self._notify(farm, zone, task[1]))

    async def stop(self) -> None:
        await end_tasks(self._running.values())

    def _cancel(self, task: _Task) -> None:
        if running := self._running.pop(task, None):
            running.cancel()

    async def _notify(self, farm: Farm, zone: Zone, target: NotifyTarget) -> None:
        what = f"NOTIFY {to_text(zone.origin)} serial {zone.serial} to {target}"
        try:
            async with self._at_once:
                rcode = await self._tries(farm, zone, target)
        except Exception:
            log.exception("%s: failed", what)
        else:
            if rcode is None:
                tries = f"{f' signed with key {target.key!r}' if target.key else ''} after {TRIES} tries"
                log.warning("%s: no answer%s; the secondary will detect the change at its next refresh", what, tries)
            elif rcode:
                log.warning(
                    "%s: the secondary answered %s; check whether this server is configured there as a primary",
                    what,
                    rcode,
                )
            else:
                log.info("%s: answered", what)

    async def _tries(self, farm: Farm, zone: Zone, target: NotifyTarget) -> str | None:
        key = next((key for key in farm.config.keys if key.name == target.key), None)
        source = source_for(target.endpoint, farm.config.server.listen)
        wait = self._first_wait
        for _ in range(TRIES):
            query = make_notify(zone, key)
            wire = query.to_wire()
            end = asyncio.get_running_loop().time() + wait
            try:
                async with asyncio.timeout_at(end):
                    return await _ask(query, wire, target.endpoint, source)
            except (OSError, TimeoutError):
                # Try again even if the port is closed: the secondary may be starting
                await asyncio.sleep(max(0.0, end - asyncio.get_running_loop().time()))
            wait *= 2
        return None


class Secondaries:
    """Writes the serial file and notifies the secondaries once new zones are being served."""

    def __init__(self) -> None:
        self._serial_file, self._notifier = SerialFile(), Notifier()

    def start(self, configuration: ServeConfiguration) -> None:
        """Write the serials and notify the secondaries.

        Secondaries transfer the zones immediately, so the server must already be serving them.
        """
        self._serial_file.write(configuration.farm, configuration.serials)
        self._notifier.reload(configuration.farm)

    async def prepare(self, new: ServeConfiguration) -> PreparedChange:
        """Return a change whose last step notifies the secondaries. Apply this change after the answerer's change."""

        async def finish() -> None:
            self.start(new)

        return PreparedChange("secondaries", finish=finish)

    async def stop(self) -> None:
        await self._notifier.stop()


def source_for(target: Endpoint, listen: Sequence[Endpoint]) -> str:
    """Return the source address for a NOTIFY, or an empty string to let the kernel choose.

    Secondaries accept a NOTIFY only from a server address that is in their configuration.
    """
    to = ipaddress.ip_address(target.host)
    for endpoint in listen:
        ours = ipaddress.ip_address(endpoint.host)
        if ours.version == to.version and ours.is_loopback == to.is_loopback:
            return "" if ours.is_unspecified else endpoint.host
    return ""


def make_notify(zone: Zone, key: KeyConfig | None) -> dns.message.Message:
    """Return a new NOTIFY with the zone's SOA record; converting the message to wire form signs it with ``key``."""
    # Imported here: only a server with secondaries needs the general message library
    import dns.flags
    import dns.message
    import dns.name
    import dns.opcode
    import dns.rdata
    import dns.rrset

    origin, _ = dns.name.from_wire(zone.origin, 0)
    message = dns.message.make_query(origin, dns.rdatatype.SOA, id=secrets.randbits(16), flags=dns.flags.AA)
    message.set_opcode(dns.opcode.NOTIFY)
    rdata = zone.soa.rdatas[0]
    soa = dns.rdata.from_wire(dns.rdataclass.IN, dns.rdatatype.SOA, rdata, 0, len(rdata))
    message.answer.append(dns.rrset.from_rdata(origin, zone.soa.ttl, soa))
    if key is not None:
        message.use_tsig(dns.tsig.Key(f"{key.name}.", key.secret, f"{key.algorithm}."))
    return message


async def _ask(query: dns.message.Message, wire: bytes, target: Endpoint, source: str) -> str:
    """Send a query from a new port, and return the RCODE of the first valid answer, or an empty string for NOERROR."""
    loop = asyncio.get_running_loop()
    family, _, _, _, address = socket.getaddrinfo(
        target.host, target.port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
    )[0]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        if source:
            sock.bind((source, 0))
        sock.connect(address)
        await loop.sock_sendall(sock, wire)
        while True:
            rcode = answer_to(query, await loop.sock_recv(sock, _MAX_RESPONSE))
            if rcode is not None:
                return rcode


def answer_to(query: dns.message.Message, wire: bytes) -> str | None:
    """Return the RCODE of the answer to ``query`` (empty for NOERROR), or None if ``wire`` is not a valid answer."""
    import dns.exception
    import dns.message
    import dns.opcode
    import dns.rcode

    try:
        response = dns.message.from_wire(wire, keyring=query.keyring, request_mac=query.mac)
    except (dns.exception.DNSException, ValueError):
        return None
    if query.keyring is not None and not response.had_tsig:
        return None
    if response.opcode() != dns.opcode.NOTIFY or not query.is_response(response):
        return None
    return dns.rcode.to_text(response.rcode()) if response.rcode() else ""
