"""Fake farms of any size for tests of the live page. All metrics are functions of time, so they have a history."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lbdns.scores.thesis import THESIS

NAMES: Final = {"best": "best", "round.robin": "round_robin", "weighted": "weighted"}
FAILS_OPEN: Final = "no member is usable, so all members that are not drained take turns"


def _phase(*words: str) -> float:
    """Return a number from 0 to 1 that depends only on ``words``."""
    return zlib.crc32(" ".join(words).encode()) / 2**32


@dataclass
class FakeFarm:
    """A farm of pools with the names of their members.

    ``started`` and ``now`` are Unix times in seconds. If ``now`` is None, the farm uses the system clock; otherwise,
    the test sets the time.
    """

    pools: dict[str, list[str]]
    now: float | None = None
    silent: set[str] = field(default_factory=set)
    replaced: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # member -> fields that replace those of its status
    events: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)  # senders of rejected reports
    bus: dict[str, Any] | None = None  # the connection to a bus
    shared: dict[str, Any] | None = None  # the state of the overrides that servers share
    shared_answers: dict[str, Any] | None = None  # the state of the answers that servers share
    backups: dict[str, dict[str, Any]] = field(default_factory=dict)  # pool -> how it uses its backup
    sites: dict[str, dict[str, Any]] = field(default_factory=dict)  # pool -> its sites, and their orders
    has_history: bool = True
    fails_open: bool = False
    answer_length: int = 1  # members that an answer names
    is_current: bool = True  # False: a server of the first versions, which sent fewer fields
    started: float = field(default_factory=lambda: time.time() - 4000)

    @property
    def time(self) -> float:
        return time.time() if self.now is None else self.now

    def load(self, member: str, at: float) -> float:
        """Return the load of a member, from 0 to 1."""
        slow = math.sin(at / 97 + 6.28 * _phase(member)) + 0.5 * math.sin(at / 1900 + 6.28 * _phase(member, "slow"))
        return min(1.0, max(0.02, 0.42 + 0.17 * slow + 0.07 * math.sin(at / 7.3 + 6.28 * _phase(member, "fast"))))

    def cores(self, member: str) -> int:
        return 1 << int(3 * _phase(member, "cores"))

    def rate(self, member: str, at: float) -> float:
        """Return the number of answers per second that name the member."""
        return 1.6 * self.cores(member) * (1.4 - self.load(member, at))

    def answers(self, member: str) -> int:
        return int((self.time - self.started) * 1.6 * self.cores(member) * 0.98)

    def metrics(self, member: str, at: float) -> dict[str, float]:
        load, cores = self.load(member, at), self.cores(member)
        return {
            "run_queue": round(4 * cores * load * load),
            "cpu_idle": round(100 * (1 - load), 1),
            "gateway_ping": round(0.4 + 3 * _phase(member, "ping") + 2 * load, 2),
            "requests_per_s": round(18 * cores * load, 1),
            "scan_rate": 0.0,
            "idle_workers": round(20 * (1 - load)),
            "busy_workers": round(20 * load * 0.9),
            "cpu_count": float(cores),
            "load1": round(cores * load, 2),
            "mem_available": round(80 - 30 * load, 1),
            "net_tx": round(2.1e5 * cores * load),
        }

    def value(self, metric: str, member: str, at: float) -> float | None:
        metrics = self.metrics(member, at)
        known = {"answers": self.rate(member, at), "score": float(THESIS.of(metrics)), "usable": 1.0, "age_s": 0.5}
        return known.get(metric, metrics.get(metric))

    def members(self, pool: str) -> list[dict[str, Any]]:
        """Return the entries of a pool's members in the status."""
        names = self.pools[pool]
        answers, cores = sum(map(self.answers, names)), sum(map(self.cores, names))
        return [self._member(name, number, answers or 1, cores) for number, name in enumerate(names)]

    def _member(self, name: str, number: int, pool_answers: int, pool_cores: int) -> dict[str, Any]:
        metrics = self.metrics(name, self.time)
        capacity = 21.0 * self.cores(name)
        is_silent = name in self.silent
        entry: dict[str, Any] = {
            "name": name, "addresses": [f"192.0.2.{1 + number % 250}"],
            "state": "silent" if is_silent else "usable", "guard": "", "answers": self.answers(name),
            "share": round(self.answers(name) / pool_answers, 4), "score": THESIS.of(metrics),
            "age_s": 14.2 if is_silent else round(0.9 * (self.time + _phase(name)) % 0.9, 3),
            "interval_s": 1.0, "metrics": metrics, "alarm": "", "gone": False,
        }  # fmt: skip
        if self.is_current:
            entry |= {
                "reason": "no report for 14 s" if is_silent else "", "overrides": [], "capacity": capacity,
                "score_parts": {key: round(part, 2) for key, part in THESIS.parts(metrics).items()},
                "capacity_share": round(self.cores(name) / pool_cores, 4),
            }  # fmt: skip
        return entry | self.replaced.get(name, {})

    def status(self) -> dict[str, Any]:
        uptime = self.time - self.started
        queries = int(uptime * 41)
        document: dict[str, Any] = {
            "pools": [
                {
                    "name": pool, "zone": "hobbit" if pool == "web" else f"{pool}.example", "policies": NAMES,
                    "fail_open": self.fails_open, "fail_open_reason": "", "shadow": [],
                    "members": self.members(pool),
                }
                for pool in self.pools
            ],
            "server": {"version": "0.1.0", "uptime_s": round(uptime, 3), "queries": queries, "workers": 1},
        }  # fmt: skip
        if self.is_current:
            for pool in document["pools"]:
                pool["measured"] = True
                pool["backup"] = self.backups.get(pool["name"])
                pool.update(self.sites.get(pool["name"], {"sites": [], "orders": []}))
                pool["next"] = self.next_answers(pool["name"])
            document["server"] |= {
                "started": self.started, "types": self.counts(uptime, A=25, AAAA=14, HTTPS=2),
                "rcodes": self.counts(uptime, NOERROR=39.5, NXDOMAIN=1.2, REFUSED=0.3),
                "history": {"on": self.has_history, "ok": True, "error": "", "dropped": 0, "bytes": 12_400_000},
            }  # fmt: skip
            document["reports"] = {"counts": {}, "rejected": self.rejected, "bus": self.bus}
            if self.shared:
                document["shared_overrides"] = self.shared
            if self.shared_answers:
                document["shared_answers"] = self.shared_answers
        return document

    def next_answers(self, pool: str) -> dict[str, dict[str, Any]]:
        """Return the next answers of a pool: by load for policy best, and in turns for the others."""
        members = [name for name in self.pools[pool] if name not in self.silent] or self.pools[pool]
        best = sorted(members, key=lambda name: self.load(name, self.time))
        turn = int(self.time) % len(members)
        first, last = members[turn], members[turn - 1]
        turns = {
            "members": ((members[turn:] + members[:turn]) * 5)[:5], "why": "strict rotation",
            "summary": f"next in turn after {last}; the members' load is ignored", "share": None,
            "alternatives": (members[turn:] + members[:turn])[1 : self.answer_length],
        }  # fmt: skip
        by_capacity = f"next in turn: {first} has 40 % of the capacity, and gets 40 % of the answers"
        if self.fails_open:
            return dict.fromkeys(NAMES.values(), turns | {"why": FAILS_OPEN, "summary": FAILS_OPEN})
        return {
            "best": {
                "members": (best * 5)[:5], "why": "traffic is light: highest score",
                "summary": f"few queries, and {best[0]} has the highest score (98)", "share": None,
                "alternatives": best[1 : self.answer_length],
            },
            "round_robin": turns,
            "weighted": turns | {"why": "in proportion to capacity", "summary": by_capacity, "share": 0.4},
        }  # fmt: skip

    @staticmethod
    def counts(uptime: float, **rates: float) -> dict[str, int]:
        return {key: int(uptime * rate) for key, rate in rates.items()}

    def history(
        self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int
    ) -> dict[str, Any]:
        """Return the response of /api/v1/history."""
        step = max(1.0, math.ceil((end - start) / points))
        times = [math.ceil(start / step) * step + i * step for i in range(int((end - start) / step))]
        rates = {
            "types": {"A": 25.0, "AAAA": 14.0, "HTTPS": 2.0},
            "rcodes": {"NOERROR": 39.5, "NXDOMAIN": 1.2, "REFUSED": 0.3},
        }
        series: dict[str, list[float | None]]
        if pool:
            series = {name: [self.value(metric, name, at) for at in times] for name in members or self.pools[pool]}
        else:
            series = {
                key: [rate * (1 + 0.15 * math.sin(at / 61 + 6 * _phase(key))) for at in times]
                for key, rate in rates.get(metric, {"queries": 41.0}).items()
            }
        tier = "raw" if step < 10 else "10s" if step < 60 else "1min"
        return {"pool": pool, "metric": metric, "tier": tier, "step_s": step, "times": times, "series": series}

    def plots(
        self, pool: str, metrics: Sequence[str], server: Sequence[str], members: Sequence[str], start: float,
        end: float, step: float,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the response of /api/v1/plots."""
        points = max(1, math.ceil((end - start) / max(1.0, step)))
        lines = {metric: self.history(pool, metric, members, start, end, points) for metric in metrics}
        rates = {metric: self.history("", metric, [], start, end, points) for metric in server}
        first = next(iter((lines | rates).values()))
        return {
            "pool": pool, "tier": first["tier"], "step_s": first["step_s"], "times": first["times"],
            "metrics": {
                metric: {"series": found["series"], "others": self.others(pool, metric, members, found["times"])}
                for metric, found in lines.items()
            },
            "server": {metric: found["series"] for metric, found in rates.items()},
        }  # fmt: skip

    def others(
        self, pool: str, metric: str, members: Sequence[str], times: Sequence[float]
    ) -> dict[str, list[float | None]]:
        """Return the summary of the members without a series of their own; of very many, a tenth stands for all."""
        names = [name for name in self.pools[pool] if name not in members]
        weight = 10 if len(names) > 500 else 1  # a thousand members would take seconds to compute
        names = names[::weight]
        rows = [[value for name in names if (value := self.value(metric, name, at)) is not None] for at in times]
        if not names:
            return {}
        if metric == "answers":
            return {"sum": [weight * sum(row) for row in rows]}
        return {
            "mean": [sum(row) / len(row) if row else None for row in rows],
            "lowest": [min(row, default=None) for row in rows],
            "highest": [max(row, default=None) for row in rows],
        }

    def explain(self, name: str) -> dict[str, Any] | None:
        """Return the response of /api/v1/explain, or None if no pool answers ``name``."""
        owner, pool = next(
            ((owner, pool) for pool in self.status()["pools"] for owner in NAMES if name == f"{owner}.{pool['zone']}"),
            ("", None),
        )
        if pool is None:
            return None
        members = [
            {
                **member, "candidate": self.fails_open or member["state"] == "usable", "suspect": False,
                "cores": self.cores(member["name"]),
                "load": member["metrics"].get("busy_workers", 0.0), "charge": 0.4 * _phase(member["name"], "charge"),
                "credit": round(2 * _phase(member["name"], "credit") - 1, 3), "left": 1.0, "ramp": 1.0, "weight": 1.0,
                "probability": member["share"] if member["state"] == "usable" else 0.0,
            }
            for member in pool["members"]
        ]  # fmt: skip
        candidates = [m["name"] for m in sorted(members, key=lambda m: -m["probability"]) if m["candidate"]]
        return {
            "name": name, "owner": owner, "pool": pool["name"], "zone": pool["zone"], "policy": NAMES[owner],
            "time": self.time, "worker": 0, "workers": 1, "next": candidates[0] if candidates else None,
            "why": "it has the most spare capacity",
            "summary": FAILS_OPEN if self.fails_open else f"{candidates[0]} has the most spare capacity",
            "fail_open": self.fails_open, "fail_open_reason": "", "ttl": 0,
            "alternatives": candidates[1 : self.answer_length], "measured": True,
            "interval_s": 1.0, "answers_per_s": 6.2, "requests_per_s": 112.4, "answers_allowed": 18,
            "plan": {
                "length": 64, "given": 764 if self.fails_open else 3, "part": "expected", "repeats": True,
                "next": (candidates * 10)[:10],
            },
            "score_name": "thesis", "members": members,
        }  # fmt: skip


def demo_farm() -> FakeFarm:
    """Return a farm like that of ``lbdns demo``."""
    return FakeFarm({"web": ["bilbo", "frodo", "gandalf"]})


def large_farm(pools: int = 5, members: int = 200) -> FakeFarm:
    """Return a farm with large pools. Some members are silent, and some are in slow start."""
    names = ["web", *(f"shop{i}" for i in range(1, pools))]
    farm = FakeFarm({pool: [f"{pool}-{i:03}" for i in range(1, members + 1)] for pool in names})
    for pool in names:
        farm.silent.update(f"{pool}-{i:03}" for i in range(17, members, 61))
        farm.replaced.update(
            {
                f"{pool}-{i:03}": {"guard": "ramp 40%", "reason": "back for 4 s: 40% of its share"}
                for i in range(5, members, 73)
            }
        )
    return farm
