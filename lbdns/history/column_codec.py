"""The column codec: packs columns of numbers into a small number of bytes, and unpacks them. Pure functions.

The first byte of a packed column identifies its format. For every format, C functions do most of the work. Format
"rounded" stores 11 significant bits (an error of at most 0.025 %) in the upper three bytes of a float32. Most digits of
a measurement are noise, and noise cannot be compressed. Without rounding, most of a history file for 200 members would
be noise. Counters, times and scores must not be rounded. For these, format "steps" stores the differences between
successive values as integer multiples of 1 or 1e-6. Format "exact" stores all other values as float64.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import sub
from typing import Any, Final, TypeVar

from lbdns.native_extension import AVAILABLE

if AVAILABLE:
    import lbdns_native

N = TypeVar("N", int, float)

ABSENT: Final = math.nan  # missing value: not reported, or not known
_ROUNDED, _WHOLE, _MILLIONTHS, _EXACT, _TEXTS = b"f", b"w", b"m", b"d", b"t"
#: 11 of a float32's 24 significant bits are kept, which includes the upper three bits of its second byte
_HALF: Final = (1 << 12).to_bytes(4, "little")  # of the last kept bit of a float32
_UPPER: Final = bytes(byte & 0xE0 for byte in range(256))  # translates a float32's second byte
_MILLION: Final = 1e6  # values in exact columns are rounded to multiples of 1e-6
_NONE: Final = -(2**62)  # represents ABSENT among steps
_LARGEST_STEP: Final = 2.0**61  # so that a step between two values, or to _NONE, fits into 64 bits
_LEVEL: Final = 4  # for zlib; 6 takes twice the time and saves 1 %, 1 needs 6 % more space (measured with 200 members)
MAX_COLUMN: Final = 64 * 2**20  # bytes after unpacking: a damaged file must not fill the memory


def encode(values: Sequence[float], *, exact: bool = False) -> bytes:
    """Pack ``values``, which must all be finite or ABSENT.

    If ``exact`` is true, integers are stored exactly, and other values are rounded to multiples of 1e-6.

    If ``exact`` is false, values are rounded, and values beyond the range of float32 become infinite.
    """
    if exact:
        return _encode_exact(values)
    data = _little(array("f", values)).tobytes()
    # One addition rounds all values: add half of the last kept bit to each. No sum overflows into the next value's bits
    halves = int.from_bytes(_HALF * len(values), "little")
    data = (int.from_bytes(data, "little") + halves).to_bytes(len(data), "little")
    return _ROUNDED + _pack(data[1::4].translate(_UPPER) + data[2::4] + data[3::4])


def decode(blob: bytes) -> list[float]:
    """Unpack a column packed by ``encode``. Raises ValueError if ``blob`` is not a packed column."""
    kind, data = blob[:1], _unpack(blob[1:])
    if kind == _ROUNDED:
        return _join("f", bytes(len(data) // 3) + data).tolist()  # zeros for the lowest byte, which is not stored
    if kind == _EXACT:
        return _join("d", data).tolist()
    if kind not in (_WHOLE, _MILLIONTHS):
        raise ValueError(f"the column has the unknown format {kind!r}")
    unit = 1.0 if kind == _WHOLE else _MILLION
    return [n / unit if n != _NONE else ABSENT for n in accumulate(_join("q", data))]


def encode_texts(texts: Sequence[tuple[int, int, str]]) -> bytes:
    """Pack ``texts``, a list of (member index, time index, text) tuples."""
    return _TEXTS + _pack(json.dumps(texts, separators=(",", ":")).encode())


def decode_texts(blob: bytes) -> list[tuple[int, int, str]]:
    """Unpack a column packed by ``encode_texts``. Raises ValueError if ``blob`` is not a packed column."""
    if blob[:1] != _TEXTS:
        raise ValueError("the column does not contain text")
    try:
        return [(int(member), int(time), str(text)) for member, time, text in json.loads(_unpack(blob[1:]))]
    except (TypeError, RecursionError):
        raise ValueError("the text column cannot be decoded") from None


def _encode_exact(values: Sequence[float]) -> bytes:
    if AVAILABLE:
        kind, data = lbdns_native.exact_column(array("d", values).tobytes())
        return kind + _pack(data)
    return _encode_exact_in_python(values)


def _encode_exact_in_python(values: Sequence[float]) -> bytes:
    known = [x for x in values if x == x]
    largest = max(map(abs, known), default=0.0)
    if largest < _LARGEST_STEP and all(map(float.is_integer, known)):
        return _WHOLE + _steps([int(x) if x == x else _NONE for x in values])
    if largest * _MILLION < _LARGEST_STEP:
        return _MILLIONTHS + _steps([round(x * _MILLION) if x == x else _NONE for x in values])
    return _EXACT + _pack(_split(array("d", values)))


def _steps(numbers: Sequence[int]) -> bytes:
    return _pack(_split(array("q", map(sub, numbers, chain((0,), numbers)))))


def _split(values: array[N]) -> bytes:
    """Return the first bytes of all values, then the second bytes, and so on. Data in this order compresses better with
    zlib."""
    data, size = _little(values).tobytes(), values.itemsize
    return b"".join(data[place::size] for place in range(size))


def _join(typecode: str, data: bytes) -> array[Any]:
    """Restore the values from bytes produced by ``_split``. Raises ValueError."""
    size = array(typecode).itemsize
    if len(data) % size:
        raise ValueError("column is truncated")
    count = len(data) // size
    whole = bytearray(len(data))
    for place in range(size):
        whole[place::size] = data[place * count : (place + 1) * count]
    return _little(array(typecode, bytes(whole)))


def _little(values: array[N]) -> array[N]:
    """Convert between the machine's byte order and the file's byte order (little-endian)."""
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
        raise ValueError(f"column: cannot decompress: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("the column is truncated or too long")
    return whole
