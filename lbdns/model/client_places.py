"""Maps the place of a client, as a record of a database states it, to an order of sites. Pure.

The smallest place that the configuration lists decides: a subdivision, then a country, then a continent. In all other
places, the site nearest to the client's coordinates comes first, and the others follow by their distance from that
site. There are therefore at most as many orders by distance as sites, however many places the database contains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lbdns.config.places_setting import Coordinates, PlacesConfig
from lbdns.model.site_networks import UNKNOWN, SiteOrder

_Vector = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class ClientPlaces:
    """The orders of sites by place, keyed by the codes of continents, countries and subdivisions."""

    continents: Mapping[str, SiteOrder]
    countries: Mapping[str, SiteOrder]
    subdivisions: Mapping[str, SiteOrder]
    _nearest: Sequence[tuple[_Vector, SiteOrder]] = field(default=(), repr=False)  # by site

    @property
    def orders(self) -> tuple[SiteOrder, ...]:
        """Return the different orders that clients can have, without that of clients about whom nothing is known."""
        by_code = (self.continents, self.countries, self.subdivisions)
        found = [*(order for orders in by_code for order in orders.values()), *(order for _, order in self._nearest)]
        return tuple(dict.fromkeys(found))

    @property
    def uses_coordinates(self) -> bool:
        return bool(self._nearest)

    def order_of(self, record: Any) -> SiteOrder:
        """Return the order for the clients of ``record``, which may have any form, or UNKNOWN.

        The names of the fields are those of MaxMind: ``continent.code``, ``country.iso_code``,
        ``subdivisions[].iso_code``, ``location.latitude`` and ``location.longitude``.
        """
        if not isinstance(record, Mapping):
            return UNKNOWN
        country = _code(record, "country", "iso_code")
        if self.subdivisions:
            parts = record.get("subdivisions")
            for part in reversed(parts) if isinstance(parts, Sequence) and not isinstance(parts, str) else ():
                code = part.get("iso_code") if isinstance(part, Mapping) else None
                if order := self.subdivisions.get(f"{country}-{code}"):
                    return order
        if order := self.countries.get(country) or self.continents.get(_code(record, "continent", "code")):
            return order
        return self._by_distance(record.get("location"))

    def _by_distance(self, location: Any) -> SiteOrder:
        if not self._nearest or not isinstance(location, Mapping):
            return UNKNOWN
        try:
            client = _vector((float(location["latitude"]), float(location["longitude"])))
        except (KeyError, TypeError, ValueError):
            return UNKNOWN
        return max(self._nearest, key=lambda site: _product(site[0], client))[1]


def build_places(config: PlacesConfig) -> ClientPlaces:
    """Return the orders of sites that ``config`` lists, and those by the distance between its sites."""
    vectors = {site: _vector(place) for site, place in config.coordinates}
    nearest = [
        (here, tuple(sorted(vectors, key=lambda site: -_product(here, vectors[site])))) for here in vectors.values()
    ]
    return ClientPlaces(dict(config.continents), dict(config.countries), dict(config.subdivisions), nearest)


def _code(record: Mapping[str, Any], place: str, name: str) -> str:
    found = record.get(place)
    code = found.get(name) if isinstance(found, Mapping) else None
    return code if isinstance(code, str) else ""


def _vector(place: Coordinates) -> _Vector:
    """Return the unit vector from the centre of the Earth to ``place``."""
    north, east = map(math.radians, place)
    return math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)


def _product(one: _Vector, other: _Vector) -> float:
    """Return the cosine of the angle between two places: the nearer they are, the greater it is."""
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
