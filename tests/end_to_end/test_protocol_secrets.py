"""Tests of cookie secrets across reloads: rotation keeps clients' cookies valid, and generated secrets are kept."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lbdns_shared.endpoint import Endpoint
from tests.end_to_end.process import Program
from tests.end_to_end.protocol import PLANES, SECRET, dig, serving
from tests.needs import needs

pytestmark = [needs(programs=("dig",)), pytest.mark.parametrize("plane", PLANES)]
NEW = "445536bcd2513298075a5d379663c962"
CLIENT = "2464c4abcf10c957"


def learn(at: Endpoint) -> str:
    return dig(at, "best.hobbit", f"+cookie={CLIENT}").cookie


def is_valid(at: Endpoint, cookie: str) -> bool:
    """Return whether the server sends a long answer to a client that presents this cookie."""
    return bool(dig(at, "big.hobbit", "TXT", f"+cookie={cookie}", "+ignore").answer)


def reload(served: Program, count: int) -> None:
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: served.errors.count("reload: done") == count, "a reload")


def test_rotation(tmp_path: Path, plane: str) -> None:
    secrets = tmp_path / "cookie.secret"
    with serving(tmp_path, plane=plane) as (served, at):
        old = learn(at)
        assert is_valid(at, old)
        secrets.write_text(f"{SECRET}\n{NEW}\n")  # first everybody learns to accept the new one
        reload(served, 1)
        assert is_valid(at, old)
        assert dig(at, "best.hobbit", f"+cookie={old}").cookie == old
        secrets.write_text(f"{NEW}\n{SECRET}\n")  # then it makes cookies
        reload(served, 2)
        assert is_valid(at, old)
        new = dig(at, "best.hobbit", f"+cookie={old}").cookie
        assert new != old
        secrets.write_text(f"{NEW}\n")  # and in the end the old one goes
        reload(served, 3)
        assert not is_valid(at, old)
        assert is_valid(at, new)


def test_a_bad_secret_file_at_a_reload_changes_nothing(tmp_path: Path, plane: str) -> None:
    with serving(tmp_path, plane=plane) as (served, at):
        cookie = learn(at)
        (tmp_path / "cookie.secret").write_text("what was it again?\n")
        served.process.send_signal(signal.SIGHUP)
        finding = f"{tmp_path}/cookie.secret:1: [cookies] secret_file: must be 32 hex digits"
        served.until(lambda: finding in served.errors, "the error is said")
        assert is_valid(at, cookie)


def test_a_made_up_secret_is_kept_over_reloads(tmp_path: Path, plane: str) -> None:
    with serving(tmp_path, plane=plane, cookies="") as (served, at):
        cookie = learn(at)
        reload(served, 1)
        assert is_valid(at, cookie)
        (tmp_path / "other").mkdir()
        with serving(tmp_path / "other", plane=plane, cookies="") as (_, stranger):
            assert not is_valid(stranger, cookie)
