"""Read the places of ``[sites]``: orders of sites by continent, country and subdivision, and the sites' coordinates."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from lbdns.config.place_codes import parse_continent, parse_country, parse_subdivision
from lbdns.config.toml_reader import TomlTable
from lbdns.text.suggestions import nearest

#: Degrees north, and degrees east
Coordinates = tuple[float, float]
#: Codes of places, and the order in which the clients in each use the sites
PlaceOrders = tuple[tuple[str, tuple[str, ...]], ...]
KEYS: Final = ("continents", "countries", "subdivisions", "coordinates")
_FORM: Final = "[LATITUDE, LONGITUDE] in degrees, for example [52.5, 13.4]"


@dataclass(frozen=True, slots=True)
class PlacesConfig:
    """Orders of sites by the place of the client. The smallest place that contains the client decides."""

    continents: PlaceOrders = ()
    countries: PlaceOrders = ()
    subdivisions: PlaceOrders = ()
    coordinates: tuple[tuple[str, Coordinates], ...] = ()  # of sites; for clients in no other place

    def __bool__(self) -> bool:
        return bool(self.continents or self.countries or self.subdivisions or self.coordinates)


NO_PLACES: Final = PlacesConfig()


def read_places(table: TomlTable) -> PlacesConfig:
    """Return the places that the section ``[sites]`` lists, and record errors."""
    known = table.values.get("order")
    sites = [site for site in known if isinstance(site, str)] if isinstance(known, list) else []
    found = PlacesConfig(
        _orders(table, "continents", parse_continent, sites),
        _orders(table, "countries", parse_country, sites),
        _orders(table, "subdivisions", parse_subdivision, sites),
        _coordinates(table, sites),
    )
    used = [name for name in KEYS if name in table.values]
    if "database" not in table.values:
        for name in used:
            table.wrong(name, "requires a database that contains the places of networks; set database")
    elif not used:
        table.wrong("database", f"has no effect without places; set {', '.join(KEYS[:-1])} or {KEYS[-1]}")
    return found


def _orders(table: TomlTable, name: str, parse: Callable[[str], str], sites: Collection[str]) -> PlaceOrders:
    """Return the places in the table ``name``. ``parse`` reads a place's code."""
    found: dict[str, tuple[str, ...]] = {}
    if (places := table.table(name)) is None:
        return ()
    for text in places.values:
        order = places.strings(text)
        try:
            code = parse(text)
            if code in found:
                raise ValueError(f"{code} is already listed in other letters")
            found[code] = order
        except ValueError as error:
            places.wrong(text, str(error))
        if not order and places.values[text] == []:
            places.wrong(text, "lists no site; write the sites in the order in which clients use them")
        for at, site in enumerate(order):
            if site not in sites:
                places.wrong(text, f"there is no site {site!r} in [sites] order{nearest(site, sites)}", site)
            elif site in order[:at]:
                places.wrong(text, f"site {site!r} appears twice", site)
    return tuple(found.items())


def _coordinates(table: TomlTable, sites: Collection[str]) -> tuple[tuple[str, Coordinates], ...]:
    places = table.table("coordinates")
    found = []
    for site, pair in places.values.items() if places else ():
        assert places is not None
        if site not in sites:
            places.wrong(site, f"there is no site {site!r} in [sites] order{nearest(site, sites)}")
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(value) in (int, float) for value in pair):
            places.wrong(site, f"must be {_FORM}, not {pair!r}")
        elif not (abs(pair[0]) <= 90 and abs(pair[1]) <= 180):
            places.wrong(site, f"{pair!r} is not a place on Earth; write {_FORM}")
        else:
            found.append((site, (float(pair[0]), float(pair[1]))))
    return tuple(found)
