"""Samples in Prometheus's text format, among others as Caddy documents its metrics."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.sources.prometheus_sample import PrometheusSample, parse_labels, parse_prometheus_sample

CADDY = b"""\
# HELP caddy_http_requests_in_flight Number of requests currently handled by this server.
# TYPE caddy_http_requests_in_flight gauge
caddy_http_requests_in_flight{handler="static_response",server="srv0"} 2
caddy_http_requests_in_flight{handler="subroute",server="srv0"} 5
# HELP caddy_http_requests_total Counter of HTTP(S) requests made.
# TYPE caddy_http_requests_total counter
caddy_http_requests_total{handler="subroute",server="srv0"} 1.2e+03
caddy_http_requests_total{handler="subroute",server="srv1"} 34
caddy_http_request_duration_seconds_bucket{code="200",handler="subroute",method="GET",server="srv0",le="+Inf"} 11
caddy_http_request_duration_seconds_count{code="200",handler="subroute",method="GET",server="srv0"} 11
"""
OTHER = rb"""
plain 4
  indented{ a = "1" , b="x,y}z" ,}   6 1700000000000
escaped{path="C:\\dir\"\n"} 7
exemplar_total{a="1"} 8 # {trace="abc"} 0.5
nothing NaN
endless{a="1"} +Inf
wrong 1.2.3
plain_too 9
huge{n="1"} 1.7e308
huge{n="2"} 1.7e308
"""


@pytest.mark.parametrize(
    ("sample", "text", "value"),
    [
        ('caddy_http_requests_in_flight{handler="subroute"}', CADDY, 5),
        ('caddy_http_requests_in_flight{server="srv0",handler="static_response"}', CADDY, 2),
        ('caddy_http_requests_total{handler="subroute"}', CADDY, 1234),
        ('caddy_http_requests_total{server="srv1"}', CADDY, 34),
        ("caddy_http_requests_total", CADDY, 1234),
        ('caddy_http_request_duration_seconds_bucket{le="+Inf"}', CADDY, 11),
        ("plain", OTHER, 4),
        ('indented{b="x,y}z"}', OTHER, 6),
        (r'escaped{path="C:\\dir\"\n"}', OTHER, 7),
        ("exemplar_total", OTHER, 8),
        ("plain", b"plain 4", 4),
        ("plain", OTHER.replace(b"\n", b"\r\n"), 4),
    ],
)
def test_samples(sample: str, text: bytes, value: float) -> None:
    assert parse_prometheus_sample(sample).find(text) == value


@pytest.mark.parametrize(
    ("sample", "error"),
    [
        ("absent", "there is no sample absent"),
        ("plai", "there is no sample plai"),
        ('plain{a="1"}', 'there is no sample plain{a="1"}'),
        ('indented{a="2"}', "there is no sample"),
        ("nothing", "the value 'NaN' is not a finite number"),
        ("endless", "the value '+Inf' is not a finite number"),
        ("wrong", "the value '1.2.3' is not a finite number"),
        ("huge", "the sum of the values is too large"),
    ],
)
def test_samples_without_a_value(sample: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        parse_prometheus_sample(sample).find(OTHER)


@pytest.mark.parametrize(
    "text", ["", "{a}", "1x", "a b", "a{b=1}", 'a{b="1"', 'a{b="1"}{', 'a{="1"}', 'a{b="1" c="2"}', "a{,}"]
)
def test_selectors_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_prometheus_sample(text)


LABELS = st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), st.text(max_size=8), max_size=4)


def write(labels: dict[str, str]) -> str:
    escaped = {n: v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for n, v in labels.items()}
    return ",".join(f'{name}="{value}"' for name, value in escaped.items())


@given(LABELS)
def test_labels_are_read_back(labels: dict[str, str]) -> None:
    assert parse_labels(write(labels)) == frozenset(labels.items())


@given(LABELS, st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_sample_is_found(labels: dict[str, str], value: float) -> None:
    page = f"# HELP m\nother 1\nm{{{write(labels)}}} {value!r}\nm_total 2\n".encode()
    assert PrometheusSample("m", frozenset(labels.items())).find(page) == value


@given(st.binary(max_size=60), st.integers(0, len(CADDY)))
def test_any_page_gives_a_finite_number_or_a_value_error(text: bytes, at: int) -> None:
    try:
        found = parse_prometheus_sample('caddy_http_requests_total{handler="subroute"}').find(
            CADDY[:at] + text + CADDY[at:]
        )
    except ValueError:
        return
    assert math.isfinite(found)
