"""Reads a master file (RFC 1035 section 5) with dnspython, and returns a Zone with data in wire format."""

from __future__ import annotations

import io
import re
import stat
import struct
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO, cast

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tokenizer
import dns.transaction
import dns.zonefile

from lbdns.zones import obsolete_types
from lbdns.zones.generate_lines import expanded, read_generate_line
from lbdns.zones.names import is_below, to_text
from lbdns.zones.plain_lines import PlainLine, plain_lines
from lbdns.zones.zone_records import AAAA, MAX_RDATA, SOA, A, Node, RRset, UnservableError, ZoneRecords, wire_name
from lbdns_shared.endpoint import address_fault
from lbdns_shared.errors import ZoneFileError

__all__ = ["AAAA", "SOA", "A", "Node", "RRset", "Zone", "parse_zone", "read_zone"]

MAX_GENERATED: Final = 2**20  # records from all $GENERATE lines of a zone: as many as the reverse zone of a /12 has
MAX_INCLUDED: Final = 10_000  # files of one zone; files that include each other several times multiply without end
#: The exceptions that the library raises for values that do not fit a field or break one of its rules.
_UNFIT: Final = (dns.exception.DNSException, ArithmeticError, ValueError, RecursionError, struct.error)


_AROUND_ANSWER: Final = 12 + 4 + 11  # octets: the header, the question without its name, and an OPT record
_AROUND_RDATA: Final = 12  # octets: a compressed owner name, and the fixed fields of a record
_ALWAYS_FITS: Final = 65_000  # octets of rdata
_COMPRESSED: Final = {dns.rdatatype.NS, dns.rdatatype.CNAME, dns.rdatatype.PTR, dns.rdatatype.MX, dns.rdatatype.SOA}
#: The types at the apex of a zone file that a signer has written
_SIGNED: Final = {dns.rdatatype.RRSIG, dns.rdatatype.DNSKEY, dns.rdatatype.NSEC, dns.rdatatype.NSEC3PARAM}
_UNSIGNED: Final = (
    "the zone is signed (DNSSEC), but lbdns sends no signatures. If the parent zone contains DS records for this zone,"
    " remove them: otherwise, validating resolvers reject every answer"
)
#: Errors of dnspython that do not name the solution, and what to say instead
_CLEARER: Final = {
    r"^generic rdata does not start with .*": r"data of this type must be written as \\# LENGTH HEX (RFC 3597)",
    r"^unknown rdatatype ('.*')$": r"unknown record type \1; perhaps write it as TYPE and its number,"
    r" followed by \\# LENGTH HEX (RFC 3597)",
}
_NOT_SHOWN: Final = "the line's content is not shown because some users cannot read the file"
obsolete_types.register()


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone that has been read from a master file, with RRsets keyed by lower-case wire name and type. Immutable."""

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
    """Read the master file of zone ``name``, and return the zone.

    Raises ZoneFileError with the file, line and reason.
    """
    if _never_ends(path):
        raise ZoneFileError(f"{path}: zone {name}: must be a regular file")
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ZoneFileError(f"{path}: zone {name}: cannot read the file: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ZoneFileError(f"{path}: zone {name}: byte {error.start} is not valid UTF-8") from None
    return parse_zone(name, text, path)


def parse_zone(name: str, text: str, path: Path) -> Zone:
    """Return the zone that a master file's text describes.

    ``path`` is the path of the file, which appears in error messages. $INCLUDE paths are relative to ``path``. Raises
    ZoneFileError.
    """
    try:
        origin = dns.name.from_text(name + ".")
    except dns.exception.DNSException as error:
        raise ZoneFileError(f"{path}: zone {name}: {error}") from None
    records = ZoneRecords(origin)
    warnings: list[str] = []
    tokenizer = dns.tokenizer.Tokenizer(io.StringIO(text), str(path))
    _Reader(tokenizer, records, warnings).read_all(f"zone {name}")
    nodes, apex = records.nodes(), wire_name(origin)
    if SOA not in nodes.get(apex, ()):
        what = f"the file must have an SOA record at {name}. Is this the file of another zone?"
        raise ZoneFileError(f"{path}: zone {name}: {what}")
    if dns.rdatatype.NS not in nodes[apex]:
        raise ZoneFileError(f"{path}: zone {name}: the file must have an NS record at {name} that names this server.")
    if _SIGNED & nodes[apex].keys():
        warnings.append(f"{path}: zone {name}: {_UNSIGNED}")
    warnings += (f"{path}: zone {name}: {what}" for what in _too_long(nodes))
    return Zone(name, apex, nodes, tuple(warnings))


def _too_long(nodes: Mapping[bytes, Node]) -> Iterator[str]:
    """Yield a warning for each RRset that does not fit into a message with its question and an OPT record.

    The function ignores RRsets whose length depends on name compression.
    """
    for owner, node in nodes.items():
        for rtype, rrset in node.items():
            if (len(rrset.rdatas) == 1 and len(rrset.rdatas[0]) < _ALWAYS_FITS) or rtype in _COMPRESSED:
                continue
            room = MAX_RDATA - _AROUND_ANSWER - len(owner)
            if sum(map(len, rrset.rdatas)) + _AROUND_RDATA * len(rrset.rdatas) > room:
                what = f"{dns.rdatatype.to_text(dns.rdatatype.RdataType.make(rtype))} records of {to_text(owner)}"
                yield f"the {what} do not fit into a DNS message, so lbdns can only send truncated answers"


def _never_ends(path: Path) -> bool:
    """Return whether ``path`` is a device or a pipe.

    Reading a device or a pipe could block forever or exhaust memory.
    """
    return path.exists() and not path.is_file() and not path.is_dir()


@dataclass(slots=True)
class _ExpansionLimits:
    """Counters and limits for the records and files that directives add to one zone."""

    generated: int = 0  # records
    included: int = 0  # files

    def generate(self, records: int) -> None:
        """Count the records that a $GENERATE line creates.

        Raises UnservableError if $GENERATE lines create too many records.
        """
        self.generated += records
        if self.generated > MAX_GENERATED:
            raise UnservableError(f"$GENERATE creates more than {MAX_GENERATED} records")

    def include(self) -> None:
        self.included += 1
        if self.included > MAX_INCLUDED:
            raise UnservableError(f"$INCLUDE directives read more than {MAX_INCLUDED} files")


class _Tokenizer(dns.tokenizer.Tokenizer):
    """A tokenizer that makes $INCLUDE paths relative to the including file, and records the last word's line number."""

    near = ""
    _line = 1
    _directive = ""

    def __init__(self, file: TextIO, filename: str, limits: _ExpansionLimits) -> None:
        self._text = file.read()
        super().__init__(io.StringIO(self._text), filename)
        self._limits = limits
        #: Reads plain lines from a given position on; returns the number of lines and the last line.
        self.take_lines: Callable[[str, int], tuple[int, PlainLine | None]] | None = None

    def get(self, want_leading: bool = False, want_comment: bool = False) -> dns.tokenizer.Token:
        # Both are set only at the beginning of a line
        if want_leading and want_comment and self.take_lines and not (self.ungotten_token or self.after_cr):
            count, last = self.take_lines(self._text, self.file.tell())
            if last:
                self.file.seek(last.end)
                self.line_number += count
                self._line, self.near = self.line_number - 1, last.data
        token = super().get(want_leading, want_comment)
        self._line = self.line_number - (token.is_eol() or self.ungotten_char == "\n")
        if self._directive == "$INCLUDE":
            token.value = self._included(token)
        # A directive begins a line, and ``want_leading`` is set only at the beginning of a line
        self._directive = token.value.upper() if want_leading and token.is_identifier() else ""
        if token.is_identifier() or token.is_quoted_string():
            self.near = token.value
        return token

    def _included(self, token: dns.tokenizer.Token) -> str:
        if token.is_eol_or_eof():
            raise UnservableError("$INCLUDE names no file")
        path = Path(self.filename).parent / token.value
        if _never_ends(path):
            raise UnservableError(f"$INCLUDE {path}: must be a regular file")
        self._limits.include()
        return str(path)

    def where(self) -> tuple[str, int]:
        return self.filename, self._line


class _Reader(dns.zonefile.Reader):
    """A dnspython reader that supports relative $INCLUDE paths, and warns about records outside the zone."""

    def __init__(self, tokenizer: dns.tokenizer.Tokenizer, records: ZoneRecords, outside: list[str]) -> None:
        self._outside = outside
        self._limits = _ExpansionLimits()
        self._records = records
        self._origin, _, _ = records.origin_information()
        self._apex = wire_name(self._origin)
        super().__init__(tokenizer, dns.rdataclass.IN, cast(dns.transaction.Transaction, records), allow_include=True)
        self._top = self.tok

    @property
    def tok(self) -> _Tokenizer:
        return self._tokenizer

    @tok.setter
    def tok(self, tokenizer: dns.tokenizer.Tokenizer) -> None:
        # dnspython sets the tokenizer at the start and at every $INCLUDE, and restores it when an included file ends
        if not isinstance(tokenizer, _Tokenizer):
            if len(self.saved_state if hasattr(self, "saved_state") else ()) > _MAX_INCLUDES:
                raise ValueError(
                    f"$INCLUDE is nested more than {_MAX_INCLUDES} levels deep; check that no file includes itself"
                )
            tokenizer = _Tokenizer(tokenizer.file, tokenizer.filename, self._limits)
            tokenizer.take_lines = self._take_lines
        self._tokenizer = tokenizer

    def _take_lines(self, text: str, at: int) -> tuple[int, PlainLine | None]:
        """Read valid plain lines without the tokenizer. Return two values: the number of plain lines, and the last
        plain line."""
        count, last = 0, None
        if self.current_origin is None:
            return 0, None
        for line in plain_lines(text, at, self.current_origin):
            ttl = line.ttl if line.ttl is not None else self._implicit_ttl()
            owner = line.owner.lower()
            if ttl is None or not is_below(owner, self._apex):
                break
            try:
                self._records.put(owner, (line.rtype, dns.rdatatype.NONE), ttl, line.rdata, line.alike)
            except UnservableError:
                break  # the tokenizer reads the line again and reports the error
            if line.ttl is not None:
                self.last_ttl, self.last_ttl_known = line.ttl, True
            count, last = count + 1, line
        if last:
            self.last_name = dns.name.from_text(last.text, self.current_origin)
        return count, last

    def _generate_line(self) -> None:
        """Read the rest of a $GENERATE line, and add its records.

        This method replaces a method of dnspython that does not accept quoted data.
        """
        words = []
        while not (token := self.tok.get()).is_eol_or_eof():
            words.append(token)
        self.tok.unget(token)
        line = read_generate_line(words)
        self._limits.generate(line.count)
        if line.ttl is not None:
            self.last_ttl, self.last_ttl_known = line.ttl, True
        ttl = line.ttl if line.ttl is not None else self._implicit_ttl()
        if self.current_origin is None or ttl is None:
            raise UnservableError("$GENERATE must have an origin and a TTL; set the TTL in this line or with $TTL")
        for number in line.numbers:
            self.last_name = dns.name.from_text(expanded(line.owner, number), self.current_origin, self.tok.idna_codec)
            if not self.last_name.is_subdomain(self._origin):
                self._eat_line()
                return
            data = expanded(line.data, number)
            rdata = dns.rdata.from_text("IN", line.rdtype, data, self.current_origin, False, self._origin)
            self._records.add(self.last_name, ttl, rdata)

    def read_all(self, what: str) -> None:
        """Read to the end of the file. Raises ZoneFileError; its message contains ``what`` as the name of the zone."""
        try:
            self.read()
        except dns.exception.DNSException as error:
            # dnspython adds the position to syntax errors only, and the class name to errors in rdata
            reason = str(error).removeprefix("{}:{}: ".format(*self.tok.where()))
            reason = re.sub(r"^caught exception <class '[^']*'>: ", "", reason)
            reason = _clearer(reason.rstrip("."))
            if _LIKE_ADDRESS.fullmatch(self.tok.near) and (fault := address_fault(self.tok.near)):
                reason = f"invalid IP address: {fault}"
            raise self._error(error, what, f"{reason}, near {self.tok.near!r}") from None
        except OSError as error:
            raise self._error(error, what, f"$INCLUDE {error.filename}: {error.strerror}") from None
        except _UNFIT as error:
            reason = str(error).removeprefix("add() ")  # dnspython's prefix for records that a zone rejects
            raise self._error(error, what, f"{_clearer(reason)}, near {self.tok.near!r}") from None
        finally:
            self.tok.take_lines = None  # a reference cycle, which would keep all records from being freed at once
            for file in (self.current_file, *(state[3] for state in self.saved_state)):
                if file is not None:
                    file.close()

    def _error(self, error: Exception, what: str, reason: str) -> ZoneFileError:
        traceback.clear_frames(error.__traceback__)  # dnspython's frames form a reference cycle that holds all records
        # A word from the file may contain line ends or terminal control characters
        if self._is_private_include():
            reason = f"the line is not valid; {_NOT_SHOWN}"
        printable = "".join(char if char.isprintable() else repr(char)[1:-1] for char in reason)
        filename, line = self.tok.where()
        return ZoneFileError(f"{filename}:{line}: {what}: {printable}")

    def _is_private_include(self) -> bool:
        """Return whether the current file is an included file that some users cannot read.

        Errors and warnings reach logs and control clients, which must not see the content of, for example, a key file.
        """
        try:
            return self.tok is not self._top and not Path(self.tok.filename).stat().st_mode & stat.S_IROTH
        except OSError:
            return True

    def _eat_line(self) -> None:
        filename, line = self.tok.where()
        what = f"{self.last_name}: lies outside the zone and is ignored"
        if self._is_private_include():
            what = f"the record lies outside the zone and is ignored; {_NOT_SHOWN}"
        self._outside.append(f"{filename}:{line}: {what}")
        super()._eat_line()  # type: ignore[no-untyped-call]


#: A word that was most likely meant as an IP address
_LIKE_ADDRESS: Final = re.compile(r"[0-9]+(\.[0-9]+)+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


def _clearer(reason: str) -> str:
    for pattern, replacement in _CLEARER.items():
        reason = re.sub(pattern, replacement, reason, flags=re.DOTALL)
    return reason


_MAX_INCLUDES: Final = 16
