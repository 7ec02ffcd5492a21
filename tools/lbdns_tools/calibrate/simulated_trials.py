"""Runs calibration trials on a simulated farm."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lbdns.scores.score import Score, Term
from lbdns.scores.thesis import THESIS
from lbdns_tools.calibrate.calibration_trial import CalibrationTrial, TrialOutcome, weighable
from lbdns_tools.percentiles import percentile
from lbdns_tools.sim.cpu_quota import make_web_server
from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.simulated_agents import SimulatedAgent
from lbdns_tools.sim.simulation_jobs import in_processes
from lbdns_tools.sim.simulation_scenario import Scenario


class SimulatedTrials:
    """A simulated farm that runs all trials in one scenario. Round N uses seed N, so all trials in a round simulate the
    same requests."""

    def __init__(self, scenario: Scenario, processes: int) -> None:
        self._scenario, self._processes = scenario, processes

    def metrics(self) -> Sequence[str]:
        """Return the metrics that the simulated agents report."""
        agent = SimulatedAgent(make_web_server(self._scenario.servers[0]))
        agent.sample(0.0)  # a rate needs two samples
        return weighable(agent.sample(self._scenario.interval))

    def run(
        self, trials: Sequence[CalibrationTrial], rounds: int, on_done: Callable[[], None]
    ) -> list[list[TrialOutcome]]:
        runs = [(self._scenario, trial, seed) for trial in trials for seed in range(1, rounds + 1)]
        outcomes = in_processes(_outcome, runs, self._processes, lambda simulate: on_done())
        return [outcomes[i * rounds : (i + 1) * rounds] for i in range(len(trials))]


def _outcome(run: tuple[Scenario, CalibrationTrial, int]) -> TrialOutcome:
    scenario, trial, seed = run
    recorder = RangeRecorder(trial.terms, scenario.warm_up)
    result = simulate(replace(scenario, score="thesis", terms=None), trial.policy, seed, recorder)
    return TrialOutcome(result.throughput_per_s, result.mean_ms, recorder.ranges())


class RangeRecorder:
    """A score that also records the values of every metric.

    The score consists of ``terms``; if ``terms`` is None, the score is "thesis".
    """

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
        return {name: percentile(values, 99) for name, values in self._values.items()}
