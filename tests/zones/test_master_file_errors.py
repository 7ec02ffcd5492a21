"""Tests of invalid master files: each error names the file, the line and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.zones import names
from lbdns.zones.master_file import SOA, parse_zone, read_zone
from lbdns_shared.errors import ZoneFileError
from tests.zones.made_up_zones import HEAD

#: What is wrong, the whole file, what is said of it
WRONG: list[tuple[str, str, str]] = [
    (
        "nothing in it",
        "",
        r"^x: zone hobbit: the file must have an SOA record at hobbit\. Is this the file of another zone\?",
    ),
    (
        "another zone's",
        "$ORIGIN orc.\n@ 1 SOA ns h 1 2 3 4 5\n@ 1 NS ns\n",
        r"^x: zone hobbit: the file must have an SOA record",
    ),
    ("no SOA", "@ 1 NS ns\n", r"^x: zone hobbit: the file must have an SOA record at hobbit\."),
    (
        "an SOA below the apex",
        HEAD + "b 1 SOA ns h 1 2 3 4 5\n",
        r"^x:5: zone hobbit: an SOA record must be at the apex of its zone",
    ),
    (
        "no NS",
        "@ 1 SOA ns h 1 2 3 4 5\n",
        r"^x: zone hobbit: the file must have an NS record at hobbit that names this server\.",
    ),
    (
        "two SOA",
        HEAD + "@ SOA ns hostmaster 8 3600 900 604800 60\n",
        r"^x:5: zone hobbit: a second SOA record; a zone may have only one",
    ),
    ("no such type", HEAD + "gandalf AA 192.0.2.1\n", r"^x:5: zone hobbit: .*AA"),
    (
        "a line's end for a type",
        HEAD + "$GENERATE 1-2 a TXT\n",
        r"^x:5: zone hobbit: \$GENERATE must have a type and the data, near 'TXT'$",
    ),
    ("what a terminal obeys", HEAD + "a \033[2J\n", r"^x:5: zone hobbit: .*'\\x1b\[2J'"),
    ("a bad address", HEAD + "gandalf A 192.0.2\n", r"^x:5: zone hobbit: "),
    ("a bad IPv6 address", HEAD + "\n\ngandalf AAAA 192.0.2.1\n", r"^x:7: zone hobbit: "),
    ("too few fields", HEAD + "gandalf MX mail\n", r"^x:5: zone hobbit: "),
    ("too many fields", HEAD + "gandalf A 192.0.2.1 192.0.2.2\n", r"^x:5: zone hobbit: "),
    ("an open parenthesis", HEAD + "gandalf A (192.0.2.1\n", r"zone hobbit: "),
    ("an open quote", HEAD + 'gandalf TXT "hello\n', r"^x:[56]: zone hobbit: "),
    ("no generic data", "@ SOA ns h 1 2 3 4 5\n@ NS ns\nx TYPE1 zz\n", r"^x:3: zone hobbit: "),
    ("a bad TTL", HEAD + "$TTL soon\n", r"^x:5: zone hobbit: "),
    ("an unknown directive", HEAD + "$INCLUED x\n", r"^x:5: zone hobbit: "),
    ("a CNAME beside others", HEAD + "a A 192.0.2.1\na CNAME ns\n", r"^x:[56]: zone hobbit: "),
    ("a label too long", HEAD + "a" * 64 + " A 192.0.2.1\n", r"^x:5: zone hobbit: "),
    ("a name too long", HEAD + ".".join(["a" * 60] * 5) + " A 192.0.2.1\n", r"^x:5: zone hobbit: "),
    ("an empty label", HEAD + "a..b A 192.0.2.1\n", r"^x:5: zone hobbit: "),
    ("a text too long", HEAD + f"a TXT {'x' * 256}\n", r"^x:5: zone hobbit: "),
    ("unknown data of another length", HEAD + "a TYPE65400 \\# 3 00\n", r"^x:5: zone hobbit: "),
    (
        "a range too long",
        HEAD + "$GENERATE 1-1000000000 web$ A 192.0.2.1\n",
        r"^x:5: zone hobbit: \$GENERATE creates more than 1048576 records",
    ),
    *(
        (
            f"the range {text}",
            HEAD + f"$GENERATE {text} web$ A 192.0.2.1\n",
            r"^x:5: .*\$GENERATE creates more than 1048576 ",
        )
        for text in ("0-9999999999999999999", "0-000000000000000000001048576", "0-1/1048576/1", '"0-1048576"')
    ),
    (
        "ranges too long together",
        HEAD + "$GENERATE 1-2 web$ A 192.0.2.1\n$GENERATE 1-1048575 web$ A 192.0.2.1\n",
        r"^x:6: zone hobbit: \$GENERATE creates more than 1048576 records",
    ),
    ("a range upside down", HEAD + "$GENERATE 5-1 web$ A 192.0.2.1\n", r"^x:5: zone hobbit: "),
    (
        "two CNAMEs",
        HEAD + "a CNAME b\na CNAME c\n",
        r"^x:6: zone hobbit: a second CNAME record; a name may have only one",
    ),
    (
        "two DNAMEs",
        HEAD + "a DNAME b\na DNAME c\n",
        r"^x:6: zone hobbit: a second DNAME record; a name may have only one",
    ),
    *(
        (f"{text}, which no record has", HEAD + f"a {text} \\# 0\n", r"^x:5: zone hobbit: .* is not a record type")
        for text in ("TYPE0", "OPT", "TYPE41", "TYPE128", "TYPE252", "TYPE255")
    ),
    (
        "a TTL of 32 bits",
        HEAD + "a 2147483648 A 192.0.2.1\n",
        r"^x:5: zone hobbit: the TTL must be at most 2147483647 s, not 2147483648 s",
    ),
    (
        "a record longer than a message",
        HEAD + "a TXT" + f" {'x' * 255}" * 256 + "\n",
        r"^x:5: zone hobbit: a record must have at most 65535 octets, not 65536",
    ),
    *(
        (f"a place {text} high", HEAD + f"a LOC 1 N 1 E {text}\n", r"^x:5: zone hobbit: .*infinity")
        for text in ("1e5000m", "infm")
    ),
    ("an $INCLUDE of nothing", HEAD + "$INCLUDE\n", r"^x:5: zone hobbit: \$INCLUDE names no file"),
    ("an $INCLUDE of nothing at the end", HEAD + "$INCLUDE", r"^x:5: zone hobbit: \$INCLUDE names no file"),
    (
        "an $INCLUDE of what never ends",
        HEAD + "$INCLUDE /dev/zero\n",
        r"^x:5: zone hobbit: \$INCLUDE /dev/zero: must be a regular file",
    ),
    ("another class", HEAD + "a CH A 192.0.2.1\n", r"^x:5: zone hobbit: "),
]


class TestWrong:
    @pytest.mark.parametrize(("text", "about"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
    def test_it_is_said_where_and_what(self, text: str, about: str) -> None:
        with pytest.raises(ZoneFileError, match=about) as caught:
            parse_zone("hobbit", text, Path("x"))
        assert caught.value.exit_status == 2
        assert "\n" not in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ZoneFileError, match=r"nope: zone hobbit: cannot read the file: No such file"):
            read_zone("hobbit", tmp_path / "nope")

    def test_a_file_that_is_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_bytes(b"; gr\xfc\xdfe\n")
        with pytest.raises(ZoneFileError, match=r"x: zone hobbit: byte 4 is not valid UTF-8"):
            read_zone("hobbit", path)

    def test_a_zone_s_name_too_long(self) -> None:
        with pytest.raises(ZoneFileError, match="A DNS name is > 255 octets long"):
            parse_zone(".".join(["a" * 60] * 5), HEAD, Path("x"))


words = st.sampled_from(
    ["@", "a", "*", "a.hobbit.", "$TTL", "$ORIGIN", "$GENERATE", "1-3", "0-4/2", "IN", "CH", "A", "AAAA", "CNAME", "MX",
     "TXT", "SOA", "NS", "TYPE65400", "TYPE1", "\\#", "4", "C0000201", "192.0.2.1", "::1", "300", "1h", "ns", "(", ")",
     '"', '"x"', ";", "\\", "\\000", "\\.", "$", "${0,3,d}", "${", "RRSIG", "HTTPS", "LOC", "NSEC3", "APL", "\n", "\n",
     "\n ", "\t", "SVCB", "1", "alpn=h2", ".", "-", "99999999999"]
)  # fmt: skip


@given(st.lists(words, max_size=30).map(" ".join))
@example("a TYPE1 \\# 4 C0000201")
@example("$GENERATE 1-3 a$ A 192.0.2.$")
def test_any_words_are_a_zone_or_an_error(text: str) -> None:
    for whole in (HEAD + text, text):
        try_to_parse(whole)


@given(st.text(max_size=60))
def test_any_text_is_a_zone_or_an_error(text: str) -> None:
    for whole in (HEAD + text, text):
        try_to_parse(whole)


def try_to_parse(text: str) -> None:
    try:
        found = parse_zone("hobbit", text, Path("x"))
    except ZoneFileError:
        return
    assert len(found.soa.rdatas) == 1
    assert all(names.is_below(owner, found.origin) for owner in found.nodes)
    assert all(owner == owner.lower() for owner in found.nodes)
    assert all(rrset.rdatas for node in found.nodes.values() for rrset in node.values())
    assert SOA in found.nodes[found.origin]
