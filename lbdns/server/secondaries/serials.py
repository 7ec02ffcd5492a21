"""SOA serials that move when the zone does: what secondaries copy is the zone file and the pools' members, and a change
of either must show in the serial, whether or not somebody thought of raising it in the file."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from lbdns.answering.transfer import content, is_ahead, pools_of
from lbdns.farm import Farm, Pool
from lbdns.zonefile import SOA, RRset, Zone
from lbdns_collector.stat_file import replace_file

log = logging.getLogger("lbdns.server")

FILE_NAME: Final = "serials.json"
_SERIAL: Final = slice(-20, -16)  # where the serial stands in the rdata of an SOA


@dataclass(frozen=True, slots=True)
class Served:
    """What was last served of one zone: a digest of its content, the serial in its file and the one it was given."""

    digest: str
    file: int
    serial: int


@dataclass(frozen=True, slots=True)
class Serials:
    """What was last served of every zone, by its name."""

    zones: Mapping[str, Served] = field(default_factory=dict)


def moved(farm: Farm, before: Serials) -> tuple[Farm, Serials]:
    """The farm with the serials it is to be served with, after it was served with those of ``before``. Pure.

    A zone that is gone is remembered: it may come back.
    """
    zones: dict[bytes, Zone] = {}
    served = dict(before.zones)
    warnings = list(farm.warnings)
    for origin, zone in farm.zones.items():
        last = served.get(zone.name)
        now = _next(last, digest(zone, pools_of(farm, zone)), zone.serial)
        if last and is_ahead(last.file, zone.serial):
            warnings.append(
                f"zone {zone.name or '.'}: the serial in the file went back from {last.file} to {zone.serial}; "
                f"secondaries know {last.serial}, so {now.serial} is served"
            )
        served[zone.name] = now
        zones[origin] = _with_serial(zone, now.serial)
    pools = tuple(_in_zone(pool, zones) for pool in farm.pools)
    return replace(farm, zones=zones, pools=pools, warnings=tuple(warnings)), Serials(served)


def _next(last: Served | None, content_digest: str, file: int) -> Served:
    """The file's serial if it is ahead of what secondaries know; else one more if anything is new."""
    if last is None or is_ahead(file, last.serial):
        return Served(content_digest, file, file)
    changed = content_digest != last.digest
    return Served(content_digest, file, (last.serial + changed) % 2**32)


def digest(zone: Zone, pools: tuple[Pool, ...]) -> str:
    """Of everything that a secondary gets but the serial, in whatever order the file has it.

    A sum of each record's own digest: sorting a large zone would hold up the queries of other threads.
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


def _in_zone(pool: Pool, zones: Mapping[bytes, Zone]) -> Pool:
    zone = zones[pool.zone.origin]
    return pool if zone is pool.zone else replace(pool, zone=zone)


class SerialFile:
    """Keeps the serials over restarts, in the state folder, for farms that have secondaries.

    A file that can't be used costs a warning: then serials are right until the next restart.
    """

    def __init__(self) -> None:
        self._failed = ""

    def read(self, farm: Farm) -> Serials:
        """What was served before this start."""
        path = _path(farm)
        if not _has_secondaries(farm):
            return Serials()
        try:
            return _parsed(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return Serials()
        except OSError as error:
            self._fail(f"{path}: can't be read: {error.strerror}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._fail(f"{path}: holds no serials; it is written anew")
        return Serials()

    def write(self, farm: Farm, serials: Serials) -> None:
        """To be called when the farm is being served. Never raises."""
        if not _has_secondaries(farm):
            return
        path = _path(farm)
        zones = {name: asdict(served) for name, served in serials.zones.items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps({"zones": zones}, indent=1) + "\n")
        except OSError as error:
            self._fail(f"{path}: can't be written: {error.strerror}")

    def _fail(self, what: str) -> None:
        if what != self._failed:
            log.warning("%s; if a zone changes over a restart, its serial may not", what)
        self._failed = what


def _path(farm: Farm) -> Path:
    return farm.config.server.state_dir / FILE_NAME


def _has_secondaries(farm: Farm) -> bool:
    return any(zone.transfer or zone.notify for zone in farm.config.zones)


def _parsed(document: Any) -> Serials:
    """Raises ValueError, TypeError, KeyError or AttributeError for what isn't ours."""
    zones = {}
    for name, values in document["zones"].items():
        served = Served(**values)
        numbers = (served.file, served.serial)
        if type(served.digest) is not str or not all(type(n) is int and 0 <= n < 2**32 for n in numbers):
            raise ValueError("no serial")
        zones[name] = served
    return Serials(zones)
