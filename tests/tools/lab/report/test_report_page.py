"""Checks that the page contains all sections, escapes their text, and shows missing results as such."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.report import report_manifest
from lbdns_tools.lab.report.report_page import (
    MADE_WITH,
    NO_RESULT,
    ReportPicture,
    ReportSection,
    SectionTable,
    shown,
    write_report,
)
from tests.tools.lab.made_up_outcomes import FARM

EVIL = "<script>alert('x')</script> & \"y\""
TABLE = SectionTable(
    EVIL, ("selection", "clients", "p95, s", "target"), [("best", 20, 0.12345, "a"), ("single", 1400, None, None)]
)
VOID = {"meta", "img"}


class Page(HTMLParser):
    """Parses a page into tags, attributes and words, and checks that all tags are closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(path.read_text("utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data.strip())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def draw(path: Path) -> None:
    path.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")


def fail(path: Path) -> None:
    raise LbdnsError("pictures need <matplotlib>")


def report(folder: Path, *sections: ReportSection, title: str = "A study", **more: Any) -> Page:
    document = (
        report_manifest.end(report_manifest.begin("webstone", {"seed": 1, "seconds": None}, {"unequal": FARM})) | more
    )
    return Page(write_report(folder, title, sections, document))


def test_everything_is_there_and_escaped(tmp_path: Path) -> None:
    section = ReportSection(EVIL, (EVIL, "second"), (TABLE,), (ReportPicture("a", EVIL, draw),))
    page = report(tmp_path, section, title=EVIL, failed=[EVIL])
    assert not page.all("script")
    assert page.words.count(EVIL) == 8  # title, h1, contents, trouble, heading, words, table, picture
    assert "second" in page.words
    assert [image["alt"] for image in page.all("img")] == [EVIL]


def test_contents_lead_to_the_sections(tmp_path: Path) -> None:
    page = report(tmp_path, ReportSection("One"), ReportSection("Two"))
    targets = [link["href"] for link in page.all("a") if (link["href"] or "").startswith("#")]
    assert targets == [f"#{section['id']}" for section in page.all("section")]
    assert len(targets) == 3
    assert page.words.count(MADE_WITH) == 2


def test_everything_it_shows_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("table\n")
    page = report(
        tmp_path, ReportSection("One", pictures=[ReportPicture("a", "A", draw), ReportPicture("b", "B", draw)])
    )
    links = [link["href"] or "" for link in (*page.all("a"), *page.all("link"))]
    files = {link for link in links if not link.startswith("#")} | {image["src"] or "" for image in page.all("img")}
    assert files == {"results.csv", "manifest.json", "pictures/a.svg", "pictures/b.svg"}
    assert all((tmp_path / file).is_file() for file in files)


def test_nothing_is_had_from_elsewhere(tmp_path: Path) -> None:
    report(tmp_path, ReportSection("One", pictures=[ReportPicture("a", "A", draw)]))
    text = (tmp_path / "index.html").read_text()
    assert not [word for word in ("http:", "https:", "url(", "@import", "<script", "<link") if word in text]


def test_names_of_pictures_become_names_of_files(tmp_path: Path) -> None:
    pictures = [ReportPicture(name, "x", draw) for name in ("../P95: html", "p95 html", "", "p95-html")]
    page = report(tmp_path, ReportSection("One", pictures=pictures))
    assert [image["src"] for image in page.all("img")] == [
        "pictures/p95-html.svg", "pictures/p95-html-2.svg", "pictures/picture.svg", "pictures/p95-html-3.svg",
    ]  # fmt: skip
    assert len(list((tmp_path / "pictures").iterdir())) == 4


def test_a_picture_that_can_not_be_drawn_takes_nothing_with_it(tmp_path: Path) -> None:
    page = report(
        tmp_path, ReportSection("One", ("words",), (), (ReportPicture("a", "A", fail), ReportPicture("b", "B", draw)))
    )
    assert "A could not be drawn: pictures need <matplotlib>" in page.words
    assert [image["src"] for image in page.all("img")] == ["pictures/b.svg"]


def test_columns_of_figures_are_aligned_as_such(tmp_path: Path) -> None:
    page = report(tmp_path, ReportSection("One", tables=[TABLE]))
    heads = [cell.get("class") for cell in page.all("th") if cell.get("scope") == "col"][:4]
    assert heads == [None, "n", "n", None]
    words = page.words
    assert {"p95,\u00a0s", "0.123", "1,400"} <= set(words)
    assert [cell["title"] for cell in page.all("span")][:2] == ["no result", "no result"]


def test_groups_of_lines_are_parted(tmp_path: Path) -> None:
    rows = [("best", 1), ("best", 2), ("single", 1), ("single", 2)]
    page = report(tmp_path, ReportSection("One", tables=[SectionTable("x", ("selection", "clients"), rows)]))
    assert [row.get("class") for row in page.all("tr")][1:5] == [None, None, "next", None]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, NO_RESULT), (float("nan"), NO_RESULT), (float("inf"), NO_RESULT), (0, "0"), (0.0, "0"),
        (1401, "1,401"), (-3, "&minus;3"), (-0.5, "&minus;0.500"), (1234.56, "1,235"), (12.345, "12.3"),
        (9.996, "10.0"), (0.0012345, "0.00123"), (99.95, "100"), (0.99999, "1.00"), ("<b>", "&lt;b&gt;"), ("", ""),
    ],
)  # fmt: skip
def test_cells(cell: str | float | None, text: str) -> None:
    assert shown(cell) == text


def test_digits_of_a_table() -> None:
    assert [shown(value, 5) for value in (12.3456789, 0.5, 123456.7)] == ["12.346", "0.50000", "123,457"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"interrupted": True},
            "The study was interrupted. This report contains only measurements from before the interruption.",
        ),
        ({"failed": ["pound: not found"]}, "pound: not found"),
    ],
)
def test_what_went_wrong_stands_above_the_figures(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    page = report(tmp_path, ReportSection("One"), **more)
    assert page.words.index(words) < page.words.index("One", page.words.index("Contents") + 3)
    assert {"class": "trouble"} in page.all("div")


def test_without_trouble_there_is_none(tmp_path: Path) -> None:
    assert {"class": "trouble"} not in report(tmp_path, ReportSection("One")).all("div")


def test_the_manifest_is_beside_and_in_the_page(tmp_path: Path) -> None:
    page = report(tmp_path, ReportSection("One"))
    document = json.loads((tmp_path / "manifest.json").read_text())
    assert document["settings"] == {"seed": 1, "seconds": None}
    words = page.words
    assert {
        "Settings",
        "Machine",
        "Versions",
        "Farms",
        "unequal: hosts",
        "bilbo",
        document["versions"]["Python"],
    } <= set(words)
    assert document["began"][:10] + " " + document["began"][11:19] + " UTC" in words
    assert {"class": "none", "title": "not set"} in page.all("span")


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LbdnsError, match=r"cannot write the report: .*file"):
        report(tmp_path / "file", ReportSection("One"))
