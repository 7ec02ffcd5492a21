"""Tests of the read-only commands on a real server with history: their output agrees with the server's data."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from lbdns.history.history_reader import HistoryReader
from tests.end_to_end.harness import agents, ask, new_site, serving
from tests.end_to_end.process import PATIENCE, eventually, python, running

MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"], "gandalf": ["127.0.0.18"]}
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def said(*arguments: str) -> str:
    """Run a command, check that it succeeds without error output, and return its output."""
    done = subprocess.run(
        python("lbdns", *arguments),
        capture_output=True, text=True, timeout=PATIENCE, check=False, env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_all_of_them_tell_the_same(tmp_path: Path) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write()
    config, control = ("-c", str(site.config)), ("--control", str(site.folder / "control.sock"))
    with serving(site) as server, agents(site, 600.0) as reporting:
        for seq, agent in enumerate(reporting.values()):
            agent.send(cpu_idle=90.0 - seq)
        eventually(lambda: {m["state"] for m in site.members_by_name().values()} == {"usable"}, "all are usable")
        next_one = json.loads(said("explain", "best", "--json", *config))["next"]
        assert f"{next_one}." in str(ask(site, "best.hobbit").answer[0])

        over_http, ordered = (json.loads(said("explain", "best", "--json", *way)) for way in (config, control))
        for document in (over_http, ordered):
            document.pop("time")
            for member in document["members"]:
                member.pop("age_s")
        assert ordered == over_http

        with running(*python("lbdns", "watch", "--since", "1h", *config), env=UNBUFFERED) as watch:
            watch.until(lambda: "ready: " in watch.output, "what was before")
            said("drain", "frodo", "--reason", "new kernel", *control)
            watch.until(lambda: "frodo is drained (was usable)" in watch.output, "what happens")
            assert watch.output.count("frodo drained by ") == 1
            assert watch.errors == ""

        for command in ("status", "top --once", "explain best"):
            told = said(*command.split(), *config)
            assert all(len(line) <= 80 for line in told.splitlines()), command
            assert "new kernel" in told or command == "top --once", command
            assert "drained" in told, command

        server.until((tmp_path / "state" / "history.db").exists, "something is written")
        server.until(lambda: "new kernel" in said("history", "--events", *config), "that too")
        scores = said("history", "--metric", "score", "--last", "10min", "--csv", *config).splitlines()
        known = {name: member["score"] for name, member in site.members_by_name().items()}
        assert scores[0] == "time,bilbo,frodo,gandalf"
        assert [int(score) for score in scores[-1].split(",")[1:]] == [known[name] for name in sorted(MEMBERS)]
        past = json.loads(site.page("/api/v1/history?pool=web&metric=score"))
        assert {name: values[-1] for name, values in past["series"].items()} == known
        ordered = json.loads(site.page("/api/v1/log?kind=override"))["events"]
        assert [event["member"] for event in ordered] == ["frodo"]
    # What was in memory only is written at the end; the file can be read without a server
    kept = [event.text for event in HistoryReader(tmp_path / "state" / "history.db").events()]
    assert kept == list(dict.fromkeys(kept)), "each once"
    assert any("ready: " in text for text in kept)


def test_without_pages_the_control_socket_explains(tmp_path: Path) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write()
    site.config.write_text(site.config.read_text().replace(f'listen = "{site.at(site.http_port)}"', 'listen = "off"'))
    with running(*python("lbdns", "serve", "-c", str(site.config))) as server:
        server.until(lambda: "ready: " in server.errors, "it serves")
        assert "best.hobbit: pool web, policy best" in said("explain", "best", "-c", str(site.config))
        wrong = subprocess.run(
            python("lbdns", "explain", "bset", "-c", str(site.config)),
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert (wrong.returncode, "Perhaps you meant 'best" in wrong.stderr) == (1, True), wrong
