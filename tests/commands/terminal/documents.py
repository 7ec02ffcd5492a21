"""Made-up documents in the form in which a server sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

STARTED = 1_700_000_000.0


def member(name: str, state: str = "usable", **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "addresses": ["192.0.2.1"], "joined": False, "state": state,
        "reason": "", "guard": "", "score": 66, "age_s": 0.4,
        "interval_s": 1.0, "answers": 10, "share": 0.25, "capacity": 100.0, "capacity_share": 0.5,
        "metrics": {"cpu_idle": 42.5, "run_queue": 3.0}, "score_parts": {"cpu_idle": 8.32, "run_queue": 17.64},
        "alarm": "", "gone": False, "overrides": [], **changes,
    }  # fmt: skip


def pool(name: str = "web", members: Sequence[dict[str, Any]] = (), **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "zone": "hobbit", "policies": {"best": "best"}, "backup": None, "sites": [], "orders": [],
        "fail_open": False, "fail_open_reason": "",
        "measured": True, "next": {}, "members": list(members or (member("gandalf"), member("frodo"))), "shadow": [],
        **changes,
    }  # fmt: skip


def status(*pools: dict[str, Any], queries: int = 12, **changes: Any) -> dict[str, Any]:
    server = {
        "version": "1.2.3", "uptime_s": 3700.5, "queries": queries, "workers": 1, "fault": "", "started": STARTED,
        "types": {"A": queries}, "rcodes": {"NOERROR": queries},
        "history": {"on": True, "ok": True, "error": "", "dropped": 0, "bytes": 4096}, "steer": False, "scaler": False,
        "plane": "native", "plane_reason": "", "kernel": None,
        **changes,
    }  # fmt: skip
    return {"pools": list(pools or (pool(),)), "server": server}


def event(number: int, text: str, kind: str = "state", level: str = "info", time: float = STARTED) -> dict[str, Any]:
    return {"id": number, "time": time, "kind": kind, "level": level, "text": text, "pool": "web", "member": "frodo"}


def override(kind: str = "drain", **changes: Any) -> dict[str, Any]:
    return {
        "kind": kind, "member": "gandalf.hobbit", "pool": "", "factor": 1.0, "by": "root", "reason": "new kernel",
        "since": STARTED + 3000.5, "until": None, "origin": "", **changes,
    }  # fmt: skip


def explained(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "addresses": ["192.0.2.1"], "state": "usable", "reason": "", "guard": "", "candidate": True,
        "suspect": False, "score": 66, "score_parts": {"cpu_idle": 8.32, "run_queue": 17.64}, "age_s": 0.4,
        "metrics": {"cpu_idle": 42.5}, "capacity": 120.0, "capacity_share": 0.5, "cores": 2.0, "load": 1.25,
        "charge": 3.5, "credit": -0.25, "left": 1.0, "ramp": 1.0, "weight": 1.0, "probability": 0.625,
        "answers": 10, "share": 0.5,
        "overrides": [], **changes,
    }  # fmt: skip


def explanation(*members: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "name": "best.hobbit", "owner": "best", "pool": "web", "zone": "hobbit", "policy": "best", "ttl": 0,
        "time": STARTED + 3700.5, "worker": 0, "workers": 1, "next": "gandalf",
        "why": "traffic is light: highest score", "fail_open": False, "fail_open_reason": "", "measured": True,
        "interval_s": 1.0, "answers_per_s": 0.2, "requests_per_s": 12.0, "answers_allowed": 18,
        "plan": {"length": 64, "given": 3, "next": ["gandalf", "frodo"], "repeats": True}, "score_name": "thesis",
        "members": list(members or (explained("gandalf"), explained("frodo", probability=0.375))), **changes,
    }  # fmt: skip
