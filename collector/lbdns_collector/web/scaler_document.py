"""Checks the status document of an lbdns-scaler piece by piece, so that a long document does not delay DNS."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

MAX_ELEMENT: Final = 4096  # characters of one server, round or other value; lists may be longer
LARGEST: Final = 1e11  # of all numbers: Unix seconds in the year 5138; a browser cannot show far greater times
_SPACE: Final = re.compile(r"[ \t\n\r]*")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


class NotScalerError(ValueError):
    """Raised if a document is not a scaler's status. The message states the reason."""


def check_document(body: bytes) -> Iterator[None]:
    """Check that ``body`` is the status document of a scaler. Yields after each key's value, and after each element of
    a list.

    Raises NotScalerError.
    """
    try:
        yield from _DocumentCheck(body.decode("utf-8")).steps()
    except UnicodeDecodeError:
        raise NotScalerError("it is not UTF-8") from None
    except RecursionError:
        raise NotScalerError("it is nested too deeply") from None
    except NotScalerError:
        raise
    except ValueError:
        raise NotScalerError(f"it is not a JSON object with values of at most {MAX_ELEMENT} characters") from None


class _DocumentCheck:
    """Reads one JSON object. ``at`` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._missing = dict(_KEYS)
        self._known: set[str] = set()  # keys read so far

    def steps(self) -> Iterator[None]:
        self._expect("{")
        while self._goes_on("}"):
            key = self._value()
            if not isinstance(key, str) or key in self._known:
                raise NotScalerError(f"the key {str(key)[:20]!r} is not a string, or occurs twice")
            self._known.add(key)
            self._expect(":")
            is_right = self._missing.pop(key, _anything)
            if is_right in (_is_server, _is_round) or (is_right is _anything and self._next() == "["):
                yield from self._list(key, is_right)
            elif not is_right(self._value()):
                raise NotScalerError(f"its key {key!r} is invalid")
            yield
        if self._next():
            raise NotScalerError("it must end after the JSON object")
        if self._missing:
            raise NotScalerError(f"it has no key {next(iter(self._missing))!r}")

    def _list(self, key: str, is_right: Callable[[Any], bool]) -> Iterator[None]:
        self._expect("[")
        while self._goes_on("]"):
            if not is_right(self._value()):
                raise NotScalerError(f"its key {key!r} contains an invalid element")
            yield

    def _goes_on(self, end: str) -> bool:
        """Skip a comma, or skip ``end`` if the list or object ends here. Return whether another value follows."""
        is_first = self._text[self._at - 1] in "{["
        if self._accept(end):
            return False
        if not is_first:
            self._expect(",")
        return True

    def _value(self) -> Any:
        self._next()
        value, length = _DECODER.raw_decode(self._text[self._at : self._at + MAX_ELEMENT])
        self._at += length
        return value

    def _next(self) -> str:
        """Skip space, and return the next character, or an empty string at the end."""
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._text[self._at : self._at + 1]

    def _accept(self, sign: str) -> bool:
        found = self._next() == sign
        self._at += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise NotScalerError(f"it is not a JSON object: {sign!r} is missing")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _anything(_: object) -> bool:
    return True


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_demand(value: object) -> bool:
    return value is None or (isinstance(value, Mapping) and _has_numbers(value, "time", "requests_per_s", "capacity"))


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_whole, value.values()))


def _is_server(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and all(_is_text(value.get(key)) for key in ("name", "state", "reason"))
        and _has_numbers(value, "since", "age_s")
    )


def _is_round(value: object) -> bool:
    return isinstance(value, Mapping) and _has_numbers(value, "time", "requests_per_s", "in_service", "recommended")


def _has_numbers(value: Mapping[str, object], *keys: str) -> bool:
    return all(_is_number(value.get(key)) for key in keys)


#: The keys that every status document of a scaler has, and whether a value or an element of a list fits
_KEYS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "farm": _is_text, "policy": _is_text, "minimum": _is_whole, "maximum": _is_whole, "started": _is_number,
    "trouble": _is_text, "demand": _is_demand, "counts": _is_mapping, "failures": _is_mapping, "servers": _is_server,
    "rounds": _is_round,
}  # fmt: skip
