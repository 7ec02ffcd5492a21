"""Tests of the files of a package that are in no wheel."""

from __future__ import annotations

import gzip
from pathlib import Path

from lbdns_packaging.extra_files import stage_extra_files, units


def test_each_kind_goes_into_its_folder(tmp_path: Path) -> None:
    source, stage = tmp_path / "source", tmp_path / "stage"
    for name in (
        "systemd/lbdns/lbdns.service", "systemd/lbdns/lbdns.socket", "systemd/lbdns-agent/lbdns-agent.service",
        "etc/lbdns/lbdns/lbdns.toml", "man/lbdns/lbdns.1", "man/lbdns/lbdns.toml.5", "completions/zsh/lbdns/_lbdns",
    ):  # fmt: skip
        path = source / "packaging" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (source / "LICENSE").write_text("licence")
    (source / "CHANGELOG.md").write_text("changes")
    stage_extra_files(source, "lbdns", stage)
    assert sorted(str(path.relative_to(stage)) for path in stage.rglob("*") if path.is_file()) == [
        "etc/lbdns/lbdns.toml",
        "usr/lib/systemd/system/lbdns.service",
        "usr/lib/systemd/system/lbdns.socket",
        "usr/share/doc/lbdns/changelog.gz",
        "usr/share/doc/lbdns/copyright",
        "usr/share/man/man1/lbdns.1.gz",
        "usr/share/man/man5/lbdns.toml.5.gz",
        "usr/share/zsh/vendor-completions/_lbdns",
    ]
    assert units(stage) == ["lbdns.service", "lbdns.socket"]
    page = (stage / "usr/share/man/man1/lbdns.1.gz").read_bytes()
    assert gzip.decompress(page) == b"man/lbdns/lbdns.1"
    assert page[4:8] == bytes(4), "no time in the header of gzip"
