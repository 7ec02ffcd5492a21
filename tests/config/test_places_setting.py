"""Tests of the places in [sites]: what they may contain, and mistakes."""

from __future__ import annotations

import re

import pytest

from lbdns.config.places_setting import NO_PLACES, PlacesConfig
from lbdns_shared.errors import ConfigError
from tests.config.config_files import POOL, ZONE, Load

SITES = ZONE + POOL + '[sites]\norder = ["ber", "nyc", "par"]\n'
DATABASE = 'database = "places.mmdb"\n'


def test_orders_by_place(load: Load) -> None:
    found = load(
        f'{SITES}{DATABASE}continents = {{ NA = ["nyc"], eu = "ber" }}\nsubdivisions = {{ US-CA = ["nyc", "par"] }}\n'
        "[sites.countries]\nFR = ['par', 'ber']\n[sites.coordinates]\nber = [52.5, 13.4]\nnyc = [41, -74]\n"
    )
    assert found.sites.places == PlacesConfig(
        continents=(("NA", ("nyc",)), ("EU", ("ber",))),
        countries=(("FR", ("par", "ber")),),
        subdivisions=(("US-CA", ("nyc", "par")),),
        coordinates=(("ber", (52.5, 13.4)), ("nyc", (41.0, -74.0))),
    )
    assert found.sites.database == found.path.parent / "places.mmdb"
    assert found.sites.database in found.files


def test_without_places(load: Load) -> None:
    assert load(SITES).sites.places == NO_PLACES


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (DATABASE, ":10: [sites] database: has no effect without places; set continents, countries"),
        ('countries = { FR = ["par"] }', ":10: [sites] countries: requires a database"),
        (
            DATABASE + 'countries = { UK = ["par"] }',
            ":11: [sites] countries.UK: 'UK' is not the code of a country. Per",
        ),
        (DATABASE + 'countries = { FR = ["paris"] }', ":11: [sites] countries.FR: there is no site 'paris' in [sites]"),
        (DATABASE + 'countries = { FR = ["par", "par"] }', "[sites] countries.FR: site 'par' appears twice"),
        (DATABASE + "countries = { FR = [] }", "[sites] countries.FR: lists no site"),
        (DATABASE + "countries = { FR = 1 }", "[sites] countries.FR: must be a list of strings, not 1"),
        (DATABASE + "countries = { FR = 'par', fr = 'ber' }", "countries.fr: FR is already listed in other letters"),
        (DATABASE + "countries = 'FR'", "[sites] countries: must be a table"),
        (DATABASE + "[sites.countries]\nFR = 'par'\nDE = 'bre'", ":13: [sites] countries.DE: there is no site 'bre'"),
        (
            DATABASE + "[sites.continents]\nEU = 'par'\n[sites.countries]\nDE = 'bre'",
            ":14: [sites] countries.DE: there",
        ),
        (DATABASE + "continents = { FR = 'par' }", "[sites] continents.FR: 'FR' is not the code of a continent"),
        (DATABASE + "subdivisions = { CA = 'par' }", "[sites] subdivisions.CA: 'CA' is not the code of a subdivision"),
        (DATABASE + "coordinates = { par = [52.5] }", "[sites] coordinates.par: must be [LATITUDE, LONGITUDE] in deg"),
        (DATABASE + "coordinates = { par = 'x' }", "[sites] coordinates.par: must be [LATITUDE, LONGITUDE] in degrees"),
        (DATABASE + "coordinates = { par = [91, 0] }", "[sites] coordinates.par: [91, 0] is not a place on Earth"),
        (DATABASE + "coordinates = { par = [0, nan] }", "[sites] coordinates.par: [0, nan] is not a place on Earth"),
        (DATABASE + "coordinates = { bre = [0, 0] }", "[sites] coordinates.bre: there is no site 'bre' in [sites]"),
    ],
)
def test_mistakes(load: Load, lines: str, error: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(error)):
        load(SITES + lines)
