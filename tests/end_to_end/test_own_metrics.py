"""A metric of an agent's configuration file reaches the score, the status, the explanation and the history."""

from __future__ import annotations

import json
import urllib.error
from pathlib import Path

from tests.agent.agents import agent
from tests.end_to_end.harness import Site, new_site, serving
from tests.end_to_end.process import eventually

SCORE = """
score = "queue"
[score.queue]
queue_length = { weight = 100, limit = 10, better = "low" }
"""


def score(site: Site) -> int | None:
    return site.members_by_name()["gandalf"]["score"]  # type: ignore[no-any-return]


def test_a_metric_of_the_configuration_file_is_scored_shown_and_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    site = new_site(folder, {"gandalf": ["127.0.0.1"], "frodo": ["192.0.2.2"]})
    site.write()
    text = site.config.read_text().replace("[web]\n", f"{SCORE}[web]\n", 1)
    assert SCORE in text
    site.config.write_text(text)
    queue, config = tmp_path / "queue.json", tmp_path / "agent.conf"
    queue.write_text('{"queue": {"length": 3}}')
    config.write_text(
        f"[agent]\ncollector = 127.0.0.1:{site.report_port}\nkey-file = {site.agent_key_file('gandalf')}\n"
        "interval = 0.2\ngateway = off\nserver-status = off\nalarm = off\n"
        f"[metric queue_length]\nfile = {queue}\nfield = queue.length\n"
    )
    with serving(site) as server, agent(tmp_path, "--config", str(config)) as running:
        eventually(lambda: score(site) == 70, "10 - 3 of 10, times 100")
        assert site.members_by_name()["gandalf"]["metrics"]["queue_length"] == 3.0
        queue.write_text('{"queue": {"length": 9}}')
        eventually(lambda: score(site) == 10, "10 - 9 of 10, times 100")
        document = json.loads(site.page("/api/v1/explain?name=best.hobbit"))
        explained = {member["name"]: member for member in document["members"]}
        assert explained["gandalf"]["metrics"]["queue_length"] == 9.0

        def recorded() -> bool:
            try:
                found = json.loads(site.page("/api/v1/history?pool=web&metric=queue_length"))
            except urllib.error.HTTPError:  # nothing has been recorded yet
                return False
            return 9.0 in found["series"].get("gandalf", [])

        eventually(recorded, "the history has it")
        assert running.stop() == 0
        assert "Traceback" not in server.errors
