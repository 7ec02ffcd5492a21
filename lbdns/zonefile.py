"""Master file (RFC 1035 section 5) -> Zone. dnspython reads; what is served is plain wire data."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import dns.exception
import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.tokenizer
import dns.transaction
import dns.zone
import dns.zonefile

from lbdns import names
from lbdns.errors import ZoneFileError

A: Final = int(dns.rdatatype.A)
AAAA: Final = int(dns.rdatatype.AAAA)
SOA: Final = int(dns.rdatatype.SOA)
MAX_GENERATED: Final = 2**20  # records of one $GENERATE: a reverse zone of a /12 has as many


@dataclass(frozen=True, slots=True)
class RRset:
    """The records of one name and type: TTL in seconds, each rdata in uncompressed wire form."""

    ttl: int
    rdatas: tuple[bytes, ...]


Node = Mapping[int, RRset]


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone as its file says: lower-case wire name -> type -> RRset. Never changed after reading."""

    name: str  # lower case, without the final dot
    origin: bytes
    nodes: Mapping[bytes, Node]
    warnings: tuple[str, ...] = ()

    @property
    def soa(self) -> RRset:
        return self.nodes[self.origin][SOA]

    @property
    def serial(self) -> int:
        return int.from_bytes(self.soa.rdatas[0][-20:-16], "big")


def read_zone(name: str, path: Path) -> Zone:
    """Read the master file of zone ``name``. Raises ZoneFileError with file, line and reason."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ZoneFileError(f"{path}: zone {name}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ZoneFileError(f"{path}: zone {name}: byte {error.start} is not UTF-8 text") from None
    return parse_zone(name, text, path)


def parse_zone(name: str, text: str, path: Path) -> Zone:
    """Read a zone from master file text; ``path`` names it in errors and $INCLUDE is relative to it.

    Raises ZoneFileError.
    """
    try:
        origin = dns.name.from_text(name + ".")
    except dns.exception.DNSException as error:
        raise ZoneFileError(f"{path}: zone {name}: {error}") from None
    zone = dns.zone.Zone(origin, dns.rdataclass.IN, relativize=False)
    outside: list[str] = []
    with zone.writer(True) as transaction:
        tokenizer = dns.tokenizer.Tokenizer(io.StringIO(text), str(path))
        _Reader(tokenizer, transaction, outside).read_all(f"zone {name}")
    if zone.get_rdataset(origin, dns.rdatatype.SOA) is None:
        what = f"has no SOA record at {name}.; every zone begins with one. Is it the file of this zone?"
        raise ZoneFileError(f"{path}: zone {name}: {what}")
    if zone.get_rdataset(origin, dns.rdatatype.NS) is None:
        raise ZoneFileError(f"{path}: zone {name}: has no NS record at {name}.; name this server in one")
    return Zone(
        name=name,
        origin=_wire(origin),
        nodes={_wire(owner): _node(node) for owner, node in zone.nodes.items() if len(node.rdatasets)},
        warnings=tuple(outside),
    )


def _wire(name: dns.name.Name) -> bytes:
    return name.canonicalize().to_wire() or names.ROOT


def _node(node: dns.node.Node) -> Node:
    # Records that cover others (RRSIG) are one RRset to a server that does not sign
    rrsets: dict[int, RRset] = {}
    for rdataset in node.rdatasets:
        rdatas = tuple(rdata.to_wire() or b"" for rdata in rdataset)
        before = rrsets.get(int(rdataset.rdtype))
        if before:
            rrsets[int(rdataset.rdtype)] = RRset(min(before.ttl, rdataset.ttl), before.rdatas + rdatas)
        else:
            rrsets[int(rdataset.rdtype)] = RRset(rdataset.ttl, rdatas)
    return rrsets


class _Wrong(dns.exception.DNSException):
    """What dnspython lets pass and a server can't serve."""

    def __init__(self, what: str) -> None:
        super().__init__(what)  # type: ignore[no-untyped-call]


class _Tokenizer(dns.tokenizer.Tokenizer):
    """Makes the file of an $INCLUDE relative to the file it stands in, as administrators expect.

    And knows the line of the last word: dnspython's own count is one further once the line's end was seen.
    """

    near = ""
    _line = 1
    _directive = ""

    def get(self, want_leading: bool = False, want_comment: bool = False) -> dns.tokenizer.Token:
        token = super().get(want_leading, want_comment)
        self._line = self.line_number - (token.is_eol() or self.ungotten_char == "\n")
        if self._directive == "$INCLUDE" and not token.is_eol_or_eof():
            token.value = str(Path(self.filename).parent / token.value)
        elif self._directive == "$GENERATE":
            _check_range(token.value)
        # Only at the start of a line is it a directive, and only there leading blanks are asked for
        self._directive = token.value.upper() if want_leading and token.is_identifier() else ""
        if token.is_identifier() or token.is_quoted_string():
            self.near = token.value
        return token

    def where(self) -> tuple[str, int]:
        return self.filename, self._line


def _check_range(text: str) -> None:
    """Refuse what a slip of the finger asks for: a range that would keep the server busy for hours."""
    match = re.fullmatch(r"(\d{1,18})-(\d{1,18})(?:/(\d{1,18}))?", text)
    if match and (int(match[2]) - int(match[1])) // max(1, int(match[3] or 1)) >= MAX_GENERATED:
        raise _Wrong(f"$GENERATE of more than {MAX_GENERATED} records")


class _Reader(dns.zonefile.Reader):
    """dnspython's reader, with $INCLUDE relative to its file and a word about records outside the zone."""

    def __init__(
        self, tokenizer: dns.tokenizer.Tokenizer, transaction: dns.zone.Transaction, outside: list[str]
    ) -> None:
        self._outside = outside
        super().__init__(tokenizer, dns.rdataclass.IN, transaction, allow_include=True)
        self.txn.check_put_rdataset(self._check_soa)

    @property
    def tok(self) -> _Tokenizer:
        return self._tokenizer

    @tok.setter
    def tok(self, tokenizer: dns.tokenizer.Tokenizer) -> None:
        # Set at the start and at every $INCLUDE, before anything is read; set back when a file ends
        if not isinstance(tokenizer, _Tokenizer):
            if len(self.saved_state if hasattr(self, "saved_state") else ()) > _MAX_INCLUDES:
                raise ValueError(f"$INCLUDE goes deeper than {_MAX_INCLUDES} files; does one include itself?")
            tokenizer = _Tokenizer(tokenizer.file, tokenizer.filename)
        self._tokenizer = tokenizer

    def read_all(self, what: str) -> None:
        """Read to the end of the file. Raises ZoneFileError; ``what`` names the zone in it."""
        try:
            self.read()
        except dns.exception.DNSException as error:
            # dnspython puts the position before syntax errors only, and the class before what rdata raised
            reason = str(error).removeprefix("{}:{}: ".format(*self.tok.where()))
            reason = re.sub(r"^caught exception <class '[^']*'>: ", "", reason)
            raise ZoneFileError(f"{self._where(what)}: {reason.rstrip('.')}, near {self.tok.near!r}") from None
        except OSError as error:
            raise ZoneFileError(f"{self._where(what)}: $INCLUDE {error.filename}: {error.strerror}") from None
        except (UnicodeError, ValueError, RecursionError) as error:
            reason = str(error).removeprefix("add() ")  # dnspython's name for what a zone refuses
            raise ZoneFileError(f"{self._where(what)}: {reason}, near {self.tok.near!r}") from None
        finally:
            for file in (self.current_file, *(state[3] for state in self.saved_state)):
                if file is not None:
                    file.close()

    def _where(self, what: str) -> str:
        filename, line = self.tok.where()
        return f"{filename}:{line}: {what}"

    def _check_soa(self, transaction: dns.transaction.Transaction, name: dns.name.Name, rdataset: Any) -> None:
        if rdataset.rdtype == dns.rdatatype.SOA and transaction.get(name, dns.rdatatype.SOA) is not None:
            raise _Wrong("a second SOA record: a zone has one")

    def _eat_line(self) -> None:
        filename, line = self.tok.where()
        self._outside.append(f"{filename}:{line}: {self.last_name}: is outside the zone and not served")
        super()._eat_line()  # type: ignore[no-untyped-call]


_MAX_INCLUDES: Final = 16
