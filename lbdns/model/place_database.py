"""Looks up the places of clients in a MaxMind database, such as GeoLite2-City.mmdb.

The package maxminddb reads the database. It is an extra, because most farms have no database.
"""

from __future__ import annotations

import io
import ipaddress
import logging
import os
import shutil
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from lbdns.model.client_places import ClientPlaces
from lbdns.model.site_networks import UNKNOWN, Address, SiteMatch, SiteOrder
from lbdns_shared.errors import ConfigError

if TYPE_CHECKING:
    from maxminddb import Reader

log = logging.getLogger("lbdns.sites")

#: Most records cover at least a /24 or a /48. A whole block of this length then has one entry in the cache.
BLOCKS: Final = {4: 24, 6: 48}
MAX_BLOCKS: Final = 16_384  # blocks whose orders are remembered, about 350 bytes each
_BITS: Final = {4: 32, 6: 128}


class PlaceDatabase:
    """The orders of sites by the place of a client's address."""

    def __init__(self, copy: BinaryIO, places: ClientPlaces) -> None:
        """Read the database from ``copy``, a file in memory. Raises ValueError if it is not a database."""
        import maxminddb

        self._copy, self._places = copy, places
        try:
            reader = maxminddb.open_database(f"/proc/self/fd/{copy.fileno()}")
            metadata = reader.metadata()
            self.kind = str(metadata.database_type)  # for example GeoLite2-City
            self.built = datetime.fromtimestamp(metadata.build_epoch, UTC)
        except (maxminddb.InvalidDatabaseError, TypeError, ArithmeticError, OSError) as error:
            raise ValueError(str(error)) from None
        self._versions = (4,) if metadata.ip_version == 4 else (4, 6)
        self._records = _Records(reader, places)
        #: Like ``find_block``, but remembers recent results. The cache must not refer to this object: such a cycle
        #: would keep the database in memory after each reload, because the garbage collector ignores answer tables
        self._block = lru_cache(MAX_BLOCKS)(self._records.find_block)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process, which may not be allowed to read the file, needs for the same database."""
        size = os.fstat(self._copy.fileno()).st_size
        return _restore, (os.pread(self._copy.fileno(), size, 0), self._places)

    @property
    def orders(self) -> tuple[SiteOrder, ...]:
        """Return the different orders that clients can have, without that of clients about whom nothing is known."""
        return self._places.orders

    def match(self, address: Address) -> SiteMatch:
        """Return the order of sites for ``address``, or UNKNOWN, and the length of the record's prefix."""
        version = address.version
        if version not in self._versions:
            return SiteMatch(UNKNOWN, 0)
        block = self._block(version, int(address) >> _BITS[version] - BLOCKS[version])
        return block or self._records.find(address)


class _Records:
    """The records of a database, and the orders of sites for their clients."""

    def __init__(self, reader: Reader, places: ClientPlaces) -> None:
        self._reader, self._places = reader, places
        self._is_damaged = False

    def find_block(self, version: int, number: int) -> SiteMatch | None:
        """Return the match for a whole block, or None if the block contains several records."""
        first = number << _BITS[version] - BLOCKS[version]
        found = self.find(ipaddress.IPv4Address(first) if version == 4 else ipaddress.IPv6Address(first))
        return found if found.scope <= BLOCKS[version] else None

    def find(self, address: Address) -> SiteMatch:
        """Return the match for the record that contains ``address``."""
        try:
            record, scope = self._reader.get_with_prefix_len(address)
        except Exception as error:  # the decoder raises errors of many kinds if the data is damaged
            if not self._is_damaged:
                self._is_damaged = True
                log.warning("the database of [sites] is damaged: %s: %s; some clients have no place", address, error)
            return SiteMatch(UNKNOWN, _BITS[address.version])
        return SiteMatch(self._places.order_of(record), scope)


def open_place_database(path: Path, places: ClientPlaces) -> PlaceDatabase:
    """Open the database at ``path``. Raises ConfigError, whose message does not say which setting names the file."""
    try:
        import maxminddb  # noqa: F401
    except ImportError:
        raise ConfigError("requires the package maxminddb; run pip install 'lbdns[geo]'") from None
    try:
        with path.open("rb") as file:
            found = PlaceDatabase(_copied(file), places)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not a MaxMind database") from error
    if "country" in found.kind.lower() and (places.subdivisions or places.uses_coordinates):
        lacks = "subdivisions" if places.subdivisions else "coordinates"
        raise ConfigError(f"{path} is of the type {found.kind}, which contains no {lacks}; use a City database")
    return found


def _copied(source: BinaryIO) -> BinaryIO:
    """Return a copy in memory. The library maps its file, and the process would end if another program shortened it."""
    copy = os.fdopen(os.memfd_create("lbdns-places"), "w+b")
    shutil.copyfileobj(source, copy, 1 << 20)
    copy.flush()
    return copy


def _restore(content: bytes, places: ClientPlaces) -> PlaceDatabase:
    return PlaceDatabase(_copied(io.BytesIO(content)), places)
