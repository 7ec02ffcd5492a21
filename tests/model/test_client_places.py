"""Tests of the order of sites by the place of a client."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.config.places_setting import PlacesConfig
from lbdns.model.client_places import build_places
from lbdns.model.site_networks import UNKNOWN, SiteOrder
from tests.mmdb_files import place

BER, NYC, TYO = (52.5, 13.4), (40.7, -74.0), (35.7, 139.7)
CODES = PlacesConfig(
    continents=(("EU", ("ber",)), ("NA", ("nyc",))),
    countries=(("FR", ("par", "ber")), ("US", ("nyc", "par"))),
    subdivisions=(("US-CA", ("tyo", "nyc")), ("GB-ENG", ("par",)), ("GB-LND", ("ber", "par"))),
)
BY_DISTANCE = PlacesConfig(coordinates=(("ber", BER), ("nyc", NYC), ("tyo", TYO)))


@pytest.mark.parametrize(
    ("record", "order"),
    [
        (place("EU", "DE"), ("ber",)),
        (place("EU", "FR"), ("par", "ber")),
        (place("EU", "FR", "75"), ("par", "ber")),
        (place("NA", "US", "CA"), ("tyo", "nyc")),
        (place("NA", "CA", "US"), ("nyc",)),
        (place("EU", "GB", "ENG LND"), ("ber", "par")),
        (place("EU", "GB", "ENG KEN"), ("par",)),
        (place("AS", "JP"), UNKNOWN),
        (place("AS", "NA"), UNKNOWN),  # Namibia is not North America
        (place(country="FR"), ("par", "ber")),
        (place(), UNKNOWN),
    ],
)
def test_the_smallest_place_decides(record: Any, order: SiteOrder) -> None:
    assert build_places(CODES).order_of(record) == order


@pytest.mark.parametrize(
    ("at", "order"),
    [
        ((48.9, 2.4), ("ber", "nyc", "tyo")),
        ((19.4, -99.1), ("nyc", "ber", "tyo")),
        ((-33.9, 151.2), ("tyo", "ber", "nyc")),
        ((60.0, -179.0), ("tyo", "ber", "nyc")),  # across the date line
        ((90.0, 0.0), ("ber", "nyc", "tyo")),
    ],
)
def test_the_nearest_site_is_first_and_the_others_follow_by_their_distance_from_it(
    at: tuple[float, float], order: SiteOrder
) -> None:
    assert build_places(BY_DISTANCE).order_of(place("AS", "RU", at=at)) == order


def test_a_listed_place_precedes_the_distance() -> None:
    both = build_places(PlacesConfig(CODES.continents, coordinates=BY_DISTANCE.coordinates))
    assert both.order_of(place("EU", "FR", at=TYO)) == ("ber",)
    assert both.order_of(place("AS", "JP", at=TYO))[0] == "tyo"


def test_all_orders_are_known_beforehand() -> None:
    assert build_places(CODES).orders == (
        *(("ber",), ("nyc",), ("par", "ber"), ("nyc", "par"), ("tyo", "nyc"), ("par",), ("ber", "par")),
    )
    assert [order[0] for order in build_places(BY_DISTANCE).orders] == ["ber", "nyc", "tyo"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["EU", "US", "CA", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["continent", "country", "subdivisions", "location", "code", "iso_code", "latitude", "longitude"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_record_of_any_form_has_a_known_order(record: Any) -> None:
    places = build_places(PlacesConfig(CODES.continents, CODES.countries, CODES.subdivisions, BY_DISTANCE.coordinates))
    assert places.order_of(record) in {UNKNOWN, *places.orders}
