"""Trials on a simulated farm."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lbdns.config import Term
from lbdns_collector.score import THESIS, Score
from lbdns_tools.calibrate.trial import Outcome, Trial, percentile, weighable
from lbdns_tools.sim.agent import Agent
from lbdns_tools.sim.engine import run
from lbdns_tools.sim.runner import in_processes
from lbdns_tools.sim.scenario import Scenario
from lbdns_tools.sim.server import Server


class SimulatedFarm:
    """Runs trials of one scenario in ``processes`` side by side; the rounds are the seeds from 1 on, so that all trials
    see the same requests."""

    def __init__(self, scenario: Scenario, processes: int) -> None:
        self._scenario, self._processes = scenario, processes

    def metrics(self) -> Sequence[str]:
        """Those that the simulated agents report."""
        agent = Agent(Server(self._scenario.servers[0]))
        agent.sample(0.0)  # a rate needs two
        return weighable(agent.sample(self._scenario.interval))

    def run(self, trials: Sequence[Trial], rounds: int, on_done: Callable[[], None]) -> list[list[Outcome]]:
        runs = [_Run(self._scenario, trial, seed) for trial in trials for seed in range(1, rounds + 1)]
        outcomes = in_processes(_outcome, runs, self._processes, lambda run: on_done())
        return [outcomes[i * rounds : (i + 1) * rounds] for i in range(len(trials))]


@dataclass(frozen=True, slots=True)
class _Run:
    scenario: Scenario
    trial: Trial
    seed: int


def _outcome(task: _Run) -> Outcome:
    scenario = dataclasses.replace(task.scenario, score="thesis", terms=None)
    recorder = Recorder(task.trial.terms, scenario.warm_up)
    result = run(scenario, task.trial.policy, task.seed, recorder)
    return Outcome(result.throughput_per_s, result.mean_ms, recorder.ranges())


class Recorder:
    """Weighs reports by ``terms``, or by score "thesis" without any, and keeps the range of every metric."""

    def __init__(self, terms: Mapping[str, Term] | None, since: float) -> None:
        self._score = THESIS if terms is None else Score(terms)
        self._since = since
        self._values: dict[str, array[float]] = {}

    def observe(self, member: str, metrics: Mapping[str, float], now: float) -> None:
        if now >= self._since:
            for name in weighable(metrics):
                self._values.setdefault(name, array("d")).append(metrics[name])

    def of(self, metrics: Mapping[str, float]) -> int:
        return self._score.of(metrics)

    def ranges(self) -> dict[str, float]:
        return {name: percentile(values) for name, values in self._values.items()}
