"""Columns of numbers <-> few bytes. Pure.

A column is compressed in one of three ways, which its first byte names. None of them loops over values where C can.

* rounded: 11 significant bits (an error of at most 0.025 %), as the upper three bytes of a float32. Most of a
  measurement's digits are noise, and noise can't be compressed: at 200 members, digits are what the file consists of.
* steps: differences of whole numbers of 1 or of 1e-6, for counters, times and scores, which must not be rounded.
* exact: float64, for what neither fits.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import sub
from typing import Final, TypeVar

N = TypeVar("N", int, float)

ABSENT: Final = math.nan  # no value: not reported, not known, not there yet
_ROUNDED, _WHOLE, _MILLIONTHS, _EXACT, _TEXTS = b"f", b"w", b"m", b"d", b"t"
#: Of a float32's 24 significant bits 11 are kept; of the second byte those are the upper three
_HALF: Final = (1 << 12).to_bytes(4, "little")
_UPPER: Final = bytes(byte & 0xE0 for byte in range(256))
_MILLION: Final = 1e6
_NONE: Final = -(2**62)  # stands for ABSENT among steps
_LARGEST_STEP: Final = 2.0**61  # a step between two of them, or one of them and _NONE, fits 64 bits
_LEVEL: Final = 4  # of zlib; 6 takes twice the time for 1 % less, 1 leaves 6 % more (measured on 200 members)
MAX_COLUMN: Final = 64 * 2**20  # bytes unpacked: no damaged file may fill the memory


def encode(values: Sequence[float], *, exact: bool = False) -> bytes:
    """``values``, each finite or ABSENT. ``exact``: to a millionth, whole numbers as they are. Rounded ones beyond the
    range of float32 become infinite."""
    if exact:
        return _encode_exact(values)
    data = _little(array("f", values)).tobytes()
    # All of them in one addition: half of the last bit that is kept. No sum overflows into the next value's bits
    halves = int.from_bytes(_HALF * len(values), "little")
    data = (int.from_bytes(data, "little") + halves).to_bytes(len(data), "little")
    return _ROUNDED + _pack(data[1::4].translate(_UPPER) + data[2::4] + data[3::4])


def decode(blob: bytes) -> list[float]:
    """The values again. Raises ValueError for what ``encode`` didn't make."""
    kind, data = blob[:1], _unpack(blob[1:])
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise ValueError(f"a column of unknown kind {kind!r}")
    return decoder(data)


def encode_texts(texts: Sequence[tuple[int, int, str]]) -> bytes:
    """Texts, each with its place among members and times."""
    return _TEXTS + _pack(json.dumps(texts, separators=(",", ":")).encode())


def decode_texts(blob: bytes) -> list[tuple[int, int, str]]:
    """The texts again. Raises ValueError for what ``encode_texts`` didn't make."""
    if blob[:1] != _TEXTS:
        raise ValueError("a column that holds no texts")
    try:
        return [(int(member), int(time), str(text)) for member, time, text in json.loads(_unpack(blob[1:]))]
    except (TypeError, RecursionError):
        raise ValueError("a column whose texts can't be read") from None


def _encode_exact(values: Sequence[float]) -> bytes:
    known = [x for x in values if x == x]
    largest = max(map(abs, known), default=0.0)
    if largest < _LARGEST_STEP and all(map(float.is_integer, known)):
        return _WHOLE + _steps([int(x) if x == x else _NONE for x in values])
    if largest * _MILLION < _LARGEST_STEP:
        return _MILLIONTHS + _steps([round(x * _MILLION) if x == x else _NONE for x in values])
    return _EXACT + _pack(_shuffled(_little(array("d", values)).tobytes(), 8))


def _steps(numbers: Sequence[int]) -> bytes:
    steps = array("q", map(sub, numbers, chain((0,), numbers)))
    return _pack(_shuffled(_little(steps).tobytes(), 8))


def _decode_rounded(data: bytes) -> list[float]:
    if len(data) % 3:
        raise ValueError("a column that is cut off")
    count = len(data) // 3
    whole = bytearray(4 * count)
    for place in range(3):
        whole[place + 1 :: 4] = data[place * count : (place + 1) * count]
    return _little(array("f", bytes(whole))).tolist()


def _decode_steps(data: bytes) -> list[int]:
    return list(accumulate(_little(array("q", _unshuffled(data, 8)))))


def _decode_whole(data: bytes) -> list[float]:
    return [float(n) if n != _NONE else ABSENT for n in _decode_steps(data)]


def _decode_millionths(data: bytes) -> list[float]:
    return [n / _MILLION if n != _NONE else ABSENT for n in _decode_steps(data)]


def _decode_exact(data: bytes) -> list[float]:
    return _little(array("d", _unshuffled(data, 8))).tolist()


_DECODERS: Final[dict[bytes, Callable[[bytes], list[float]]]] = {
    _ROUNDED: _decode_rounded,
    _WHOLE: _decode_whole,
    _MILLIONTHS: _decode_millionths,
    _EXACT: _decode_exact,
}


def _shuffled(data: bytes, size: int) -> bytes:
    """First bytes first, then all second ones: bytes of the same place are alike, and that is what zlib finds."""
    return b"".join(data[place::size] for place in range(size))


def _unshuffled(data: bytes, size: int) -> bytes:
    if len(data) % size:
        raise ValueError("a column that is cut off")
    count = len(data) // size
    whole = bytearray(len(data))
    for place in range(size):
        whole[place::size] = data[place * count : (place + 1) * count]
    return bytes(whole)


def _little(values: array[N]) -> array[N]:
    """``values`` in the byte order of the file, from or to that of the machine."""
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _pack(data: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _unpack(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        whole = unpacker.decompress(data, MAX_COLUMN)
    except zlib.error as error:
        raise ValueError(f"a column that can't be unpacked: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("a column that is cut off, or too long")
    return whole
