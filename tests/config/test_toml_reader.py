"""Tests of strict TOML tables: types, ranges, unknown keys, and the line numbers in errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.config.toml_reader import TomlErrors, TomlPlace, TomlTable, read_toml
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError


class TestNearest:
    @pytest.mark.parametrize(
        ("word", "known", "expected"),
        [
            ("lisen", ["listen", "workers"], ". Perhaps you meant 'listen'?"),
            ("Listen", ["listen", "workers"], ". Perhaps you meant 'listen'?"),
            ("colour", ["listen", "workers"], "; known: listen, workers"),
            ("colour", [], ""),
        ],
    )
    def test_it(self, word: str, known: list[str], expected: str) -> None:
        assert nearest(word, known) == expected


def table_of(values: dict[str, Any]) -> TomlTable:
    return TomlTable(values, TomlPlace("server"), TomlErrors(Path("x.toml"), ""))


Read = Callable[[TomlTable], Any]
READERS: dict[str, Read] = {
    "string": lambda t: t.string("key", "default"),
    "integer": lambda t: t.integer("key", 3, 1, 9),
    "number": lambda t: t.number("key", 3.0, 1.0, 9.0),
    "flag": lambda t: t.flag("key", True),
    "one_of": lambda t: t.one_of("key", "red", ("red", "green")),
    "strings": lambda t: t.strings("key", ("a",)),
    "each": lambda t: t.each("key", (1,), int),
    "parsed": lambda t: t.parsed("key", "3", int, 3),
}


class TestValues:
    @pytest.mark.parametrize(
        ("reader", "value", "expected"),
        [
            ("string", "x", "x"),
            ("string", "", ""),
            ("integer", 1, 1),
            ("integer", 9, 9),
            ("number", 2.5, 2.5),
            ("number", 2, 2.0),
            ("flag", False, False),
            ("one_of", "green", "green"),
            ("strings", ["b", "c"], ("b", "c")),
            ("strings", "b", ("b",)),
            ("strings", [], ()),
            ("each", ["4", "5"], (4, 5)),
            ("each", "4", (4,)),
            ("parsed", "4", 4),
        ],
    )
    def test_a_good_value_is_taken(self, reader: str, value: object, expected: object) -> None:
        table = table_of({"key": value})
        found = READERS[reader](table)
        assert found == expected
        assert type(found) is type(expected)
        assert table.findings.found == []

    @pytest.mark.parametrize("reader", READERS)
    def test_an_absent_key_is_the_default(self, reader: str) -> None:
        table = table_of({})
        assert READERS[reader](table) == READERS[reader](table_of({}))
        assert table.findings.found == []

    @pytest.mark.parametrize(
        ("reader", "value", "about"),
        [
            ("string", 5, "must be a string, not 5"),
            ("string", ["x"], "must be a string"),
            ("integer", 0, "must be a whole number from 1 to 9, not 0"),
            ("integer", 10, "must be a whole number from 1 to 9, not 10"),
            ("integer", 1.0, "not 1.0"),
            ("integer", True, "not True"),
            ("integer", "3", "not '3'"),
            ("number", 0.5, "must be a number from 1 to 9, not 0.5"),
            ("number", float("nan"), "not nan"),
            ("number", float("inf"), "not inf"),
            ("number", True, "not True"),
            ("number", "3", "not '3'"),
            ("flag", 1, "must be true or false, not 1"),
            ("flag", "yes", "must be true or false, not 'yes'"),
            ("one_of", "gren", "unknown value 'gren'. Perhaps you meant 'green'?"),
            ("one_of", 4, "must be a string, not 4"),
            ("strings", 5, "must be a list of strings, not 5"),
            ("strings", ["a", 5], "must be a list of strings"),
            ("each", 5, "must be a list of strings, not 5"),
            ("each", ["x"], "invalid literal for int"),
            ("parsed", 4, "must be a string, not 4"),
            ("parsed", "x", "invalid literal for int"),
        ],
    )
    def test_a_bad_one_is_a_finding_and_the_default(self, reader: str, value: object, about: str) -> None:
        table = table_of({"key": value})
        assert READERS[reader](table) == READERS[reader](table_of({}))
        (finding,) = table.findings.found
        assert finding.startswith("x.toml: [server] key: ")
        assert about in finding

    @pytest.mark.parametrize(
        ("values", "about"), [({}, "is missing"), ({"key": ""}, "is missing"), ({"key": 5}, "must be a string, not 5")]
    )
    def test_what_is_required_is_missed_once(self, values: dict[str, Any], about: str) -> None:
        table = table_of(values)
        assert table.required("key") == ""
        (finding,) = table.findings.found
        assert about in finding

    def test_tables_below(self) -> None:
        table = table_of({"one": {"a": "b"}, "many": [{"name": "x"}, {}], "none": 5, "mixed": [{}, 5]})
        one = table.table("one")
        assert one is not None
        assert one.string("a") == "b"
        assert table.table("absent") is None
        assert [str(t.place) for t in table.tables("many")] == ["[many x]", "[many 2]"]
        assert table.tables("absent") == []
        assert table.findings.found == []
        assert table.table("none") is None
        assert table.tables("mixed") == []
        assert [f.partition("key: ")[0] for f in table.findings.found] == [
            "x.toml: [server] none: must be a table",
            "x.toml: [server] mixed: must be an array of tables, written as [[mixed]]",
        ]


class TestEnd:
    def test_what_nobody_asked_for_is_unknown(self) -> None:
        table = table_of({"listen": "a", "lisen": 1, "colour": 2})
        table.string("listen")
        table.string("workers")
        table.end()
        assert table.findings.found == [
            "x.toml: [server] lisen: unknown key. Perhaps you meant 'listen'?",
            "x.toml: [server] colour: unknown key; known: listen, workers",
        ]


TEXT = """\
top = 1

[server]   # the server
listen = ["a"]
"quoted" = 2
  spaced   = 3

[[pool]]
name = "one"
ttl = 1
[[ pool ]]
name = "two"
ttl = 2
[pool.names]
best = "x"

["web"]
listen = "b"
[score.idle]
cpu_idle = {}
"""


class TestLines:
    @pytest.mark.parametrize(
        ("place", "line"),
        [
            (TomlPlace(key="top"), 1),
            (TomlPlace(key="absent"), 0),
            (TomlPlace("server"), 3),
            (TomlPlace("server", key="listen"), 4),
            (TomlPlace("server", key="quoted"), 5),
            (TomlPlace("server", key="spaced"), 6),
            (TomlPlace("server", key="absent"), 3),
            (TomlPlace("pool", 0, "ttl"), 10),
            (TomlPlace("pool", 1), 11),
            (TomlPlace("pool", 1, "ttl"), 13),
            (TomlPlace("pool", 1, "absent"), 11),
            (TomlPlace("web", key="listen"), 18),
            (TomlPlace("score.idle", key="cpu_idle"), 20),
            (TomlPlace("elsewhere", key="listen"), 0),
        ],
    )
    def test_the_line_of_a_key(self, place: TomlPlace, line: int) -> None:
        findings = TomlErrors(Path("x.toml"), TEXT)
        findings.add(place, "wrong")
        position = f"x.toml:{line}" if line else "x.toml"
        assert findings.found == [f"{position}: {place}: wrong"]

    def test_findings_are_raised_together(self) -> None:
        findings = TomlErrors(Path("x.toml"), TEXT)
        findings.raise_if_any()
        findings.add(TomlPlace("server"), "one")
        findings.add(TomlPlace("web"), "two")
        with pytest.raises(ConfigError) as caught:
            findings.raise_if_any()
        assert caught.value.findings == ("x.toml:3: [server]: one", "x.toml:17: [web]: two")
        assert str(caught.value) == "x.toml:3: [server]: one\nx.toml:17: [web]: two"


class TestReadToml:
    def test_values(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_text("a = 1\n")
        assert read_toml(path).values == {"a": 1}

    def test_a_syntax_error_has_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_text("a = 1\nb = = 2\n")
        with pytest.raises(ConfigError, match=r"x\.toml:2: TOML: Invalid value \(column 5\)"):
            read_toml(path)

    def test_an_unfinished_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_text("a = [1,\n")
        with pytest.raises(ConfigError, match=r"x\.toml: TOML: .*at end of document"):
            read_toml(path)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"nope\.toml: cannot read the file: No such file"):
            read_toml(tmp_path / "nope.toml")

    def test_a_file_that_is_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_bytes(b"a = '\xff'")
        with pytest.raises(ConfigError, match="must be UTF-8"):
            read_toml(path)

    @given(text=st.text(max_size=80))
    def test_any_text_is_values_or_an_error(self, tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
        path = tmp_path_factory.getbasetemp() / "any.toml"
        path.write_text(text, "utf-8", newline="")
        try:
            root = read_toml(path)
        except ConfigError:
            return
        for key in root.values:
            root.wrong(key, "wrong")
        assert len(root.findings.found) == len(root.values)
