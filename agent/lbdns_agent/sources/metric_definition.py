"""The definition of a metric in the configuration file: its name, its source, and how its value is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Union

from lbdns_agent.webserver.status_page import StatusUrl


class ValueSelector(Protocol):
    """Finds a metric's value in the text that a source returns."""

    def find(self, text: bytes) -> float:
        """Return the value, which is finite. Raises ValueError."""
        ...


@dataclass(frozen=True)
class UrlSource:
    """A document at an HTTP URL."""

    url: StatusUrl

    def __str__(self) -> str:
        return str(self.url)


@dataclass(frozen=True)
class CommandSource:
    """The standard output of a program, which is started without a shell."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class FileSource:
    """A file. If it was last modified more than ``max_age`` seconds ago, its content is out of date."""

    path: str
    max_age: float | None = None

    def __str__(self) -> str:
        return self.path


MetricSource = Union[UrlSource, CommandSource, FileSource]


@dataclass(frozen=True)
class MetricDefinition:
    """One metric. If ``is_rate`` is true, the source's value is a counter, and the metric is the counter's increase per
    second."""

    name: str
    source: MetricSource
    selector: ValueSelector
    is_rate: bool = False
