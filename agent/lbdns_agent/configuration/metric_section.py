"""Reads ``[metric NAME]``: a metric that the administrator defines."""

from __future__ import annotations

import math
import re
from typing import Final

from lbdns_agent.configuration.ini_file import IniSection, any_of
from lbdns_agent.sources.json_field import JsonField, parse_json_field
from lbdns_agent.sources.metric_definition import (
    CommandSource,
    FileSource,
    MetricDefinition,
    MetricSource,
    UrlSource,
    ValueSelector,
)
from lbdns_agent.sources.plain_number import PlainNumber, parse_number
from lbdns_agent.sources.prometheus_sample import parse_prometheus_sample
from lbdns_agent.webserver.status_page import parse_page_url
from lbdns_shared.metric_catalogue import RESERVED

SOURCES: Final = ("json", "prometheus", "command", "file")
KEYS: Final = (*SOURCES, "field", "sample", "rate", "max-age")
MAX_NAME: Final = 40  # characters: all names must fit into one datagram
_NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_NAME - 1}}}\Z")


def read_metric(section: IniSection, name: str) -> MetricDefinition | None:
    """Return the metric, or None after adding errors to the section's findings."""
    section.check_keys(KEYS)
    if not _NAME.match(name):
        section.findings.add(
            section.line,
            f"[{section.name}]: the name must consist of at most {MAX_NAME} lower-case letters, digits and '_', and "
            "begin with a letter",
        )
    elif name in RESERVED:
        section.findings.add(section.line, f"[{section.name}]: the server uses this name; choose another")
    given = any_of(SOURCES, section.texts)
    if len(given) != 1:
        what = "gives more than one source" if given else "lacks a source"
        section.findings.add(section.line, f"[{section.name}] {what}; write one of {', '.join(SOURCES)}")
        return None
    max_age = section.read("max-age", _parse_age, None)
    source = section.read(given[0], lambda text: _source(given[0], text, max_age), None)
    selector = _selector(section, given[0])
    is_rate = section.read("rate", parse_flag, False)
    if "max-age" in section.texts and given[0] != "file":
        section.wrong("max-age", "applies only to 'file'")
    if source is None or selector is None:
        return None
    return MetricDefinition(name, source, selector, is_rate)


def _source(kind: str, text: str, max_age: float | None) -> MetricSource:
    if kind == "command":
        return CommandSource(_words(text))
    if kind == "file":
        if not text.startswith("/"):
            raise ValueError(f"must be an absolute path, not {text!r}")
        return FileSource(text, max_age)
    example = "http://127.0.0.1:2019/metrics" if kind == "prometheus" else "http://127.0.0.1:9000/"
    return UrlSource(parse_page_url(text, example))


def _selector(section: IniSection, kind: str) -> ValueSelector | None:
    """Return how the value is found. A file and a command's output may have any of the three formats."""
    chosen = any_of(("field", "sample"), section.texts)
    if len(chosen) > 1:
        section.wrong("sample", "can't be combined with 'field'")
        return None
    for key, other in (("sample", "json"), ("field", "prometheus")):
        if key in chosen and kind == other:
            section.wrong(key, f"doesn't apply to '{kind}'")
            return None
    if "sample" in chosen:
        return section.read("sample", parse_prometheus_sample, None)
    if kind == "prometheus":
        section.findings.add(section.line, f"[{section.name}] lacks the key 'sample'")
        return None
    if "field" in chosen:
        return section.read("field", parse_json_field, None)
    return JsonField() if kind == "json" else PlainNumber()


def _words(text: str) -> tuple[str, ...]:
    import shlex  # not loaded unless needed

    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if not words or not words[0].startswith("/"):
        raise ValueError(f"must begin with the absolute path of a program, not {text!r}")
    return words


def _parse_age(text: str) -> float:
    age = parse_number(text)
    if not 0 < age < math.inf:
        raise ValueError(f"must be a number of seconds above 0, not {text!r}")
    return age


def parse_flag(text: str) -> bool:
    """Return True for ``yes`` and False for ``no``. Raises ValueError."""
    if text not in ("yes", "no"):
        raise ValueError(f"must be yes or no, not {text!r}")
    return text == "yes"
