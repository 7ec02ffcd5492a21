"""Tests of $INCLUDE: paths, nesting, limits, and what errors and warnings quote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lbdns.zones import master_file, names
from lbdns.zones.master_file import A, read_zone
from lbdns_shared.errors import ZoneFileError
from tests.zones.made_up_zones import HEAD, TXT, rrset


class TestInclude:
    def write(self, folder: Path, files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder / "hobbit.zone"

    def test_it_is_relative_to_its_own_file_and_nests(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            {
                "hobbit.zone": HEAD + "$INCLUDE parts/hosts ; all of them\nlast A 192.0.2.9\n",
                "parts/hosts": "gandalf A 192.0.2.1\n$INCLUDE more/others deep\nfrodo A 192.0.2.2\n",
                "parts/more/others": "bilbo A 192.0.2.3\n",
            },
        )
        found = read_zone("hobbit", path)
        for owner in ("gandalf.hobbit", "frodo.hobbit", "bilbo.deep.hobbit", "last.hobbit"):
            assert A in found.nodes[names.from_text(owner)]

    def test_quotes_and_absolute_paths(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            {
                "hobbit.zone": HEAD + f'$INCLUDE "with space"\n$include {tmp_path}/hosts\n',
                "with space": "gandalf A 192.0.2.1\n",
                "hosts": "frodo A 192.0.2.2\n",
            },
        )
        assert len(read_zone("hobbit", path).nodes) == 4

    def test_the_word_in_a_record_includes_nothing(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "text TXT $INCLUDE hosts\n"})
        rdata = rrset(read_zone("hobbit", path), "text.hobbit", TXT).rdatas[0]
        assert rdata == b"\x08$INCLUDE\5hosts"

    def test_an_error_names_the_included_file(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path, {"hobbit.zone": HEAD + "$INCLUDE sub/hosts\n", "sub/hosts": "a A 192.0.2.1\nb A 192.0.2\n"}
        )
        with pytest.raises(ZoneFileError) as caught:
            read_zone("hobbit", path)
        assert str(caught.value).startswith(f"{tmp_path}/sub/hosts:2: zone hobbit: ")

    def test_an_error_in_a_private_included_file_does_not_quote_the_file(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path, {"hobbit.zone": HEAD + "$INCLUDE report.key\n", "report.key": "; keys\nmaster c2VjcmV0\n"}
        )
        (tmp_path / "report.key").chmod(0o640)
        path.chmod(0o640)
        with pytest.raises(ZoneFileError) as caught:
            read_zone("hobbit", path)
        assert str(caught.value) == (
            f"{tmp_path}/report.key:2: zone hobbit: the line is not valid; "
            "the line's content is not shown because some users cannot read the file"
        )
        (tmp_path / "report.key").chmod(0o644)
        with pytest.raises(ZoneFileError, match="near 'c2VjcmV0'"):
            read_zone("hobbit", path)
        path.write_text(HEAD + "gandalf A 192.0.2.300\n")
        with pytest.raises(ZoneFileError, match=r"near '192\.0\.2\.300'"):
            read_zone("hobbit", path)  # the zone file itself is the operator's own

    def test_a_warning_about_a_private_included_file_does_not_quote_the_file(self, tmp_path: Path) -> None:
        hidden = "secret.word. A 192.0.2.1\n$GENERATE 1-2 secret$.word. A 192.0.2.1\n"
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "$INCLUDE hidden\n", "hidden": hidden})
        assert [line.partition(": ")[2] for line in read_zone("hobbit", path).warnings] == [
            "secret.word.: lies outside the zone and is ignored",
            "secret1.word.: lies outside the zone and is ignored",
        ]
        (tmp_path / "hidden").chmod(0o640)
        path.chmod(0o640)
        said = "the record lies outside the zone and is ignored; the line's content is not shown because some users "
        assert read_zone("hobbit", path).warnings == tuple(
            f"{tmp_path}/hidden:{line}: {said}cannot read the file" for line in (1, 2)
        )

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "$INCLUDE nope\n"})
        with pytest.raises(ZoneFileError) as caught:
            read_zone("hobbit", path)
        assert str(caught.value) == f"{path}:5: zone hobbit: $INCLUDE {tmp_path}/nope: No such file or directory"

    def test_a_file_that_is_no_text(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "$INCLUDE hosts\n"})
        (tmp_path / "hosts").write_bytes(b"gand\xff\xfe A 192.0.2.1\n")
        with pytest.raises(ZoneFileError, match="utf-8"):
            read_zone("hobbit", path)

    @pytest.mark.parametrize("files", [{"hobbit.zone": "hobbit.zone"}, {"hobbit.zone": "a", "a": "b", "b": "a"}])
    def test_a_ring_of_files(self, tmp_path: Path, files: Mapping[str, str]) -> None:
        texts = {name: f"{name[0]} 1 A 192.0.2.1\n$INCLUDE {other}\n" for name, other in files.items()}
        with pytest.raises(
            ZoneFileError, match=r"\$INCLUDE is nested more than 16 levels deep; check that no file includes itself"
        ):
            read_zone("hobbit", self.write(tmp_path, texts))

    def test_many_side_by_side_are_no_ring(self, tmp_path: Path) -> None:
        files = {"hobbit.zone": HEAD + "$INCLUDE hosts\n" * 40, "hosts": "gandalf A 192.0.2.1\n"}
        assert len(read_zone("hobbit", self.write(tmp_path, files)).nodes) == 3

    def test_files_that_include_each_other_many_times_are_given_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(master_file, "MAX_INCLUDED", 100)
        # Each includes the next one ten times: 10 + 100 + 1000
        files = {"hobbit.zone": HEAD + "$INCLUDE b\n" * 10, "b": "$INCLUDE c\n" * 10, "c": "$INCLUDE d\n" * 10, "d": ""}
        with pytest.raises(
            ZoneFileError, match=r"[bc]:\d+: zone hobbit: \$INCLUDE directives read more than 100 files"
        ):
            read_zone("hobbit", self.write(tmp_path, files))
        assert read_zone("hobbit", self.write(tmp_path, {**files, "b": ""})).serial == 7

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "$INCLUDE pipe\n"})
        with pytest.raises(
            ZoneFileError, match=r"hobbit.zone:5: zone hobbit: \$INCLUDE .*pipe: must be a regular file"
        ):
            read_zone("hobbit", path)
        with pytest.raises(ZoneFileError, match=r"pipe: zone hobbit: must be a regular file"):
            read_zone("hobbit", tmp_path / "pipe")
