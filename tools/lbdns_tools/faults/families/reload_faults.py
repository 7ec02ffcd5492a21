"""Reloads of broken configurations: the server rejects each reload and keeps the old configuration."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan

ANSWERED_S: Final = 20.0


def _config(bed: FaultBed, old: str, new: str) -> None:
    text = bed.farm.config.read_text()
    assert old in text, old
    bed.farm.config.write_text(text.replace(old, new, 1))


def _zone(bed: FaultBed, text: str) -> None:
    (bed.folder / "hobbit.zone").write_text(text)


def _zone_text(bed: FaultBed) -> str:
    return (bed.folder / "hobbit.zone").read_text()


def _taken_port(bed: FaultBed) -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    bed.resources.callback(sock.close)
    _config(bed, f'[web]\nlisten = "127.0.0.1:{bed.farm.http_port}"',
            f'[web]\nlisten = "127.0.0.1:{sock.getsockname()[1]}"')  # fmt: skip


def _key(bed: FaultBed) -> Path:
    return bed.folder / "report.key"


def _config_folder(bed: FaultBed) -> None:
    bed.farm.config.unlink()
    bed.farm.config.mkdir()


#: What is broken -> how
BROKEN: Final[dict[str, Callable[[FaultBed], object]]] = {
    "not TOML": lambda bed: bed.farm.config.write_text("[server\n"),
    "an empty file": lambda bed: bed.farm.config.write_text(""),
    "not UTF-8": lambda bed: bed.farm.config.write_bytes(b"\xff\xfe\x00"),
    "no file": lambda bed: bed.farm.config.unlink(),
    "a directory instead of the file": _config_folder,
    "an unknown key": lambda bed: _config(bed, "[web]", "[web]\ncolour = 1"),
    "a value of the wrong type": lambda bed: _config(bed, 'state_dir = "state"', "state_dir = 7"),
    "an unknown policy": lambda bed: _config(bed, "[[pool]]", '[[pool]]\nnames = { best = "worst" }'),
    "a member without an address": lambda bed: _config(bed, 'members = ["', 'members = ["sauron", "'),
    "no zone file": lambda bed: (bed.folder / "hobbit.zone").unlink(),
    "an empty zone file": lambda bed: _zone(bed, ""),
    "a zone cut short": lambda bed: _zone(bed, _zone_text(bed)[: len(_zone_text(bed)) // 2]),
    "a zone of noise": lambda bed: (bed.folder / "hobbit.zone").write_bytes(bed.chance.randbytes(20_000)),
    "a zone without SOA": lambda bed: _zone(bed, _zone_text(bed).replace(" SOA ", " TXT ")),
    "no key file": lambda bed: _key(bed).unlink(),
    "an empty key file": lambda bed: _key(bed).write_text(""),
    "a broken key": lambda bed: _key(bed).write_text("master notbase64\n"),
    "a port that is taken": _taken_port,
    "an address of another machine": lambda bed: _config(
        bed, f'listen = ["127.0.0.1:{bed.farm.port}"]', f'listen = ["192.0.2.1:{bed.farm.port}"]'),
    "another number of workers": lambda bed: _config(bed, "workers = 2", "workers = 3"),
}  # fmt: skip


def _restore(bed: FaultBed) -> None:
    if bed.farm.config.is_dir():
        bed.farm.config.rmdir()
    bed.farm.write_files()
    _key(bed).touch(mode=0o600)
    _key(bed).write_text("".join(key.line() + "\n" for key in bed.farm.keys))


def broken_reloads(bed: FaultBed) -> None:
    bed.begin()
    for name, break_it in BROKEN.items():
        break_it(bed)
        try:
            bed.farm.control("reload")
            bed.expect(False, f"the server accepted a broken configuration: {name}")
        except LbdnsError as error:
            bed.expect(
                "Traceback" not in str(error) and len(str(error)) < 2000,
                f"the error for {name} must be short and without a traceback: {error}",
            )
        bed.expect(bed.farm.health().status == 200, f"/healthz does not respond with 200 after the reload: {name}")
        if bed.chance.random() < 0.3:  # SIGHUP takes the same way, but tells nobody
            os.kill(bed.farm.server.pid, signal.SIGHUP)
            bed.keep(0.2)
        _restore(bed)
    bed.ease()
    bed.expect(bed.farm.control("reload").get("ok"), "the server rejected the repaired configuration")
    bed.recovers(bed.all_usable, "all members are usable")
    bed.expect(
        bed.farm.metric("lbdns_config_last_reload_successful") == 1,
        "the metric shows a failed reload, although the last reload succeeded",
    )


def reload_storm(bed: FaultBed) -> None:
    bed.begin()
    for number in range(10 if bed.quick else 40):
        bed.farm.config.write_text(bed.farm.configuration().replace("[[pool]]", f"[[pool]]\nttl = {number % 2}"))
        bed.expect(bed.farm.control("reload").get("ok"), "a reload failed")
    bed.ease()
    bed.recovers(bed.all_usable, "all members are usable")


def reload_while_the_zone_is_written(bed: FaultBed) -> None:
    """Reload the server while a zone file is incomplete, as if another program were writing it."""
    bed.begin()
    text = _zone_text(bed)
    for size in range(0, len(text), max(1, len(text) // 12)):
        _zone(bed, text[:size])
        try:
            bed.farm.control("reload")
        except LbdnsError:
            continue
        bed.expect(bed.all_usable(), f"a reload accepted the first {size} bytes of the zone and lost members")
    _restore(bed)
    bed.ease()
    bed.expect(bed.farm.control("reload").get("ok"), "the server rejected the complete zone")
    bed.recovers(bed.all_usable, "all members are usable")


FAULTS: Final = (
    Fault("reload.broken",
          f"the server is reloaded with {len(BROKEN)} kinds of broken configuration, zone and key files",
          "each reload is rejected with an error; the old configuration stays in force", broken_reloads,
          Limits(log_lines=200), quick=True),
    Fault("reload.storm", "a server with 2 workers is reloaded 40 times, each time with a changed configuration",
          "no query is lost", reload_storm, Limits(log_lines=300)),
    Fault("reload.half-written", "the server is reloaded repeatedly while a zone file is being written",
          "no query is lost; an incomplete zone is rejected", reload_while_the_zone_is_written, Limits(log_lines=200)),
    Fault("reload.storm-alone", "a server with one worker is reloaded 40 times, each time with a changed configuration",
          "no query is lost", reload_storm, Limits(log_lines=300), FarmPlan(workers=1)),
)  # fmt: skip
