"""SOA serials that advance when a zone or its pools' members change, even if the zone file's serial stays the same."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from lbdns.answering.zone_transfer import content, is_ahead, pools_of
from lbdns.model.farm import Farm, Pool
from lbdns.process.atomic_file import replace_file
from lbdns.zones.master_file import SOA, RRset, Zone

log = logging.getLogger("lbdns.server")

FILE_NAME: Final = "serials.json"
_SERIAL: Final = slice(-20, -16)  # the position of the serial in the rdata of an SOA


@dataclass(frozen=True, slots=True)
class ServedSerial:
    """The last served state of a zone: a digest of its content, the serial in its zone file, and the served serial."""

    digest: str
    file: int
    serial: int


#: The last served state of each zone, by the zone's name
ServedSerials = Mapping[str, ServedSerial]


def advance_serials(farm: Farm, before: ServedSerials) -> tuple[Farm, ServedSerials]:
    """Return a copy of the farm with the serials to be served, and a map of these serials.

    ``before`` contains the serials that were last served. Pure. The serials of removed zones are kept, because a
    removed zone may be added again.
    """
    zones: dict[bytes, Zone] = {}
    served = dict(before)
    warnings = list(farm.warnings)
    for origin, zone in farm.zones.items():
        last = served.get(zone.name)
        now = _next(last, digest(zone, pools_of(farm, zone)), zone.serial)
        if last and is_ahead(last.file, zone.serial):
            warnings.append(
                f"zone {zone.name or '.'}: the serial in the file decreased from {last.file} to {zone.serial}; "
                f"secondaries already have {last.serial}, so {now.serial} is served"
            )
        served[zone.name] = now
        zones[origin] = _with_serial(zone, now.serial)
    pools = tuple(
        pool if zones[pool.zone.origin] is pool.zone else replace(pool, zone=zones[pool.zone.origin])
        for pool in farm.pools
    )
    return replace(farm, zones=zones, pools=pools, warnings=tuple(warnings)), served


def _next(last: ServedSerial | None, content_digest: str, file: int) -> ServedSerial:
    """Return the next serial: the file's serial if it is newer, else the last served serial (plus 1 after a change)."""
    if last is None or is_ahead(file, last.serial):
        return ServedSerial(content_digest, file, file)
    changed = content_digest != last.digest
    return ServedSerial(content_digest, file, (last.serial + changed) % 2**32)


def digest(zone: Zone, pools: tuple[Pool, ...]) -> str:
    """Return a digest of everything that a secondary receives, except the serial. The order of records does not matter.

    The result is the sum of the digests of all records, because sorting a large zone would delay queries.
    """
    soa = zone.soa.rdatas[0]
    total = _number(zone.origin, SOA, zone.soa.ttl, soa[: _SERIAL.start] + soa[_SERIAL.stop :])
    for record in content(zone, pools):
        total += _number(*record)
    return f"{total % 2**256:064x}"


def _number(owner: bytes, rtype: int, ttl: int, rdata: bytes) -> int:
    return int.from_bytes(hashlib.sha256(b"%b%d %d %b" % (owner, rtype, ttl, rdata)).digest(), "big")


def _with_serial(zone: Zone, serial: int) -> Zone:
    if serial == zone.serial:
        return zone
    rdata = zone.soa.rdatas[0]
    soa = RRset(zone.soa.ttl, (rdata[: _SERIAL.start] + serial.to_bytes(4, "big") + rdata[_SERIAL.stop :],))
    return replace(zone, nodes={**zone.nodes, zone.origin: {**zone.nodes[zone.origin], SOA: soa}})


class SerialFile:
    """Keeps the serials across restarts, in a file in the state directory, if the farm has secondaries.

    If the file cannot be read or written, a warning is logged; serials are then correct only until the next restart.
    """

    def __init__(self) -> None:
        self._failed = ""

    def read(self, farm: Farm) -> ServedSerials:
        """Return the serials that were served before this server started."""
        path = _path(farm)
        if not _has_secondaries(farm):
            return {}
        try:
            return _parsed(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._fail(f"{path}: cannot read the file: {error.strerror}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._fail(f"{path}: not a valid file of zone serials; it will be replaced")
        return {}

    def write(self, farm: Farm, serials: ServedSerials) -> None:
        """Write the serials of the farm that is now being served. Never raises."""
        if not _has_secondaries(farm):
            return
        path = _path(farm)
        zones = {name: asdict(served) for name, served in serials.items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps({"zones": zones}, indent=1) + "\n")
        except OSError as error:
            self._fail(f"{path}: cannot write the file: {error.strerror}")

    def _fail(self, what: str) -> None:
        if what != self._failed:
            log.warning("%s; if a zone changes during a restart, its serial may stay the same", what)
        self._failed = what


def _path(farm: Farm) -> Path:
    return farm.config.server.state_dir / FILE_NAME


def _has_secondaries(farm: Farm) -> bool:
    return any(zone.transfer or zone.notify for zone in farm.config.zones)


def _parsed(document: Any) -> ServedSerials:
    zones = {}
    for name, values in document["zones"].items():
        served = ServedSerial(**values)
        numbers = (served.file, served.serial)
        if type(served.digest) is not str or not all(type(n) is int and 0 <= n < 2**32 for n in numbers):
            raise ValueError("not a valid serial")
        zones[name] = served
    return zones
