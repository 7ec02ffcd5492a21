"""The table of benchmarks: names, modules, help texts, short-form arguments and headline figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure recorded in docs/benchmarks.md. ``keys`` is the figure's path in the results, with one key per level."""

    name: str
    unit: str
    keys: tuple[str, ...]
    noise: float  # usual variation from run to run on a quiet machine, as a share of the kept figure
    higher_is_better: bool = False

    def value_in(self, results: Mapping[str, Any]) -> float:
        """Return the figure's value. Raises KeyError if the results do not contain the figure."""
        found: Any = results
        for key in self.keys:
            found = found[key]
        return float(found)

    def is_worse(self, now: float, kept: float) -> bool:
        """Return whether ``now`` is worse than ``kept``, and the difference exceeds the usual variation of the
        figure."""
        change = kept - now if self.higher_is_better else now - kept
        return change > self.noise * abs(kept)


class Benchmark:
    """A benchmark. ``short`` contains the arguments of the benchmark's short form."""

    def __init__(self, module: str, help: str, short: str, *headlines: Headline) -> None:
        self.module, self.help = f"lbdns_tools.bench.{module}", help
        self.short, self.headlines = short.split(), headlines


BENCHMARKS: Final[Mapping[str, Benchmark]] = {
    "agent_cost": Benchmark(
        "agent_cost", "CPU and memory use of an agent with every sensor enabled", "--seconds 10",
        Headline("CPU", "% of a core", ("agent", "cpu_percent"), 0.3),
        Headline("memory", "MB", ("agent", "rss_mb"), 0.1),
    ),
    "agreement": Benchmark(
        "agreement", "differences between the answers of servers that share their counts over a bus",
        "--answers 1000 --cases same_reports",
        Headline("best, largest difference", "of 1", ("cases", "same_reports", "difference", "best"), 2.0),
    ),
    "collector_cost": Benchmark(
        "collector_cost", "CPU and memory use of a collector that receives reports from many agents",
        "--agents 2000 --seconds 8 --follow",
        Headline("CPU per report", "us", ("cpu_us_per_report",), 0.25),
        Headline("memory", "MB", ("rss_mb",), 0.1),
    ),
    "freshness": Benchmark(
        "dns.answer_freshness", "time from a report to the first answer that reflects it", "--reports 150",
        Headline("report to answer, p50", "ms", ("p50_ms",), 0.5),
    ),
    "history_size": Benchmark(
        "history_size", "size of a recorded history, cost of recording it, and time to read the data for a plot",
        "--members 50 --hours 0.5",
        Headline("size", "bytes", ("bytes",), 0.05),
        Headline("recording", "% of a core", ("cpu_percent",), 0.3),
    ),
    "scale": Benchmark(
        "many_agents", "cost and delay of reports from up to 100,000 agents, with several collectors and DNS servers",
        "--agents 1000 --collectors 1 --seconds 8",
        Headline("CPU per report", "us", ("cases", "1000 agents, 1 collector, UDP", "cpu_us_per_report"), 0.25),
        Headline("report to answer, p99", "ms", ("cases", "1000 agents, 1 collector, UDP", "answers", "p99_ms"), 1.0),
    ),
    "memory": Benchmark(
        "member_memory", "memory per member of a collector and of a DNS server, by part",
        "--agents 300 3000 --seconds 8",
        Headline("collector", "kB per member", ("kb_per_member", "collector", "total"), 0.2),
        Headline("DNS server", "kB per member", ("kb_per_member", "server", "total"), 0.2),
    ),
    "scaling": Benchmark(
        "scaling_farm", "failed requests while lbdns-scaler scales a farm, and the time until answers name new servers",
        "--seconds 80 --highest 30",
        Headline("failed requests", "", ("failed",), 0.0),
        Headline("wanted to answer", "s", ("wanted_to_answer_s",), 0.5),
    ),
    "joining": Benchmark(
        "joining_hosts", "queries lost when many hosts join at once, and the time until answers name the new members",
        "--hosts 1000",
        Headline("lost", "queries", ("lost",), 0.0),
        Headline("last host has joined", "s", ("all_s",), 0.5),
        Headline("slowest answer", "ms", ("longest_ms",), 1.0),
    ),
    "load": Benchmark(
        "load_generator_speed", "request rate of lbdns-load, compared with wrk, ab and httperf",
        "--seconds 2 --repeats 1",
        Headline("requests per CPU second", "requests/s",
                 ("keep-alive off", "lbdns-load", "requests_per_s_per_core"), 0.25, higher_is_better=True),
    ),
    "page": Benchmark(
        "page_reader_cost", "latency of DNS answers while HTTP clients read the live page",
        "--farms 0x0 --rounds 2 --seconds 2",
        Headline("p99 latency with lbdns, relative to a dummy server", "ratio",
                 ("farms", "3 members", "kernel_p99_ratio"), 0.5),
    ),
    "plots": Benchmark(
        "plot_speed", "time from a click on a time range in the live page until the plots are drawn",
        "--members 200 --minutes 5 --rounds 2",
        Headline("click to picture", "ms", ("farms", "200 members", "total_ms"), 0.5),
    ),
    "restart": Benchmark(
        "dns.queries_during_restart",
        "queries lost while the server reloads, is replaced by a new process, or loses workers",
        "--queries 40000 --reloads 2 --take-over",
        Headline("lost", "queries", ("lost",), 0.0),
        Headline("slowest answer", "ms", ("longest_ms",), 1.0),
    ),
    "scrape": Benchmark(
        "scrape_cost", "cost of scraping /metrics on a server with many members", "",
        Headline("CPU per scrape", "ms", ("work_ms",), 0.25),
        Headline("longest step", "ms", ("longest_step_ms",), 1.0),
    ),
    "planning": Benchmark(
        "planning_cost", "CPU time of a plan for 10 to 10,000 members, with and without the native extension", "",
        Headline("10,000 members, native", "ms", ("cases", "10000 members, native", "plan_ms"), 0.2),
        Headline("10,000 members, Python", "ms", ("cases", "10000 members, python", "plan_ms"), 0.2),
        Headline("longest turn, native", "ms", ("cases", "10000 members, native", "longest_turn_ms"), 0.5),
        Headline("longest turn, Python", "ms", ("cases", "10000 members, python", "longest_turn_ms"), 0.5),
    ),
    "sim": Benchmark(
        "simulator_speed", "CPU time that the simulator needs per million requests", "--requests 40000",
        Headline("T3 under best", "s per million requests", ("cases", "T3 best", "seconds"), 0.25),
    ),
    "dns.peers": Benchmark(
        "dns.peers",
        "queries/s and CPU time per query, compared with other DNS servers or with other versions of lbdns",
        "--rounds 3 --seconds 2 --peers --compare-planes",
        Headline("CPU per query, native plane", "us", ("servers", "lbdns native", "cpu_us_per_query"), 0.15),
        Headline("CPU per query, python plane", "us", ("servers", "lbdns python", "cpu_us_per_query"), 0.15),
    ),
    "dns.xdp": Benchmark(
        "dns.answers_by_xdp", "answers/s and CPU time per answer by XDP and by sockets, over a veth pair (needs root)",
        "--rounds 3 --seconds 1 --rates 20000 --servers lbdns lbdns-xdp",
        Headline("CPU per answer by XDP", "us", ("servers", "lbdns-xdp, 20000/s", "cpu_us"), 0.5),
    ),
    "dns.latency": Benchmark(
        "dns.answer_latency", "latency of DNS answers at half the maximum query rate, compared with NSD",
        "--rounds 2 --seconds 3 --peers",
        Headline("p99", "ms", ("servers", "lbdns", "kernel_p99_ms"), 1.0),
    ),
    "dns.pauses": Benchmark(
        "dns.answer_pauses", "latency of DNS answers during planning, reloads and a stalled log, compared with NSD",
        "--rounds 2 --seconds 2",
        Headline("p99 relative to NSD", "ratio", ("servers", "nsd", "lbdns_to_it_kernel_p99"), 0.5),
        Headline("longest latency", "ms", ("servers", "lbdns", "kernel_worst_ms"), 1.0),
    ),
    "dns.freshness_load": Benchmark(
        "dns.freshness_under_load", "time from a report to a changed answer at 80 % of the maximum query rate",
        "--reports 150",
        Headline("report to answer, p50", "ms", ("p50_ms",), 0.5),
    ),
    "dns.flood": Benchmark(
        "dns.malformed_flood", "latency and loss of valid queries during a flood of malformed queries",
        "--seconds 8 --alone",
        Headline("p50 during the flood", "ms", ("servers", "lbdns", "p50_ms"), 1.0),
    ),
    "dns.endurance": Benchmark(
        "dns.endurance", "memory use during millions of queries, including random names and malformed datagrams",
        "--millions 0.4",
        Headline("highest memory", "MB", ("rss_most_mb",), 0.1),
    ),
    "dns.startup": Benchmark(
        "dns.startup_time", "time from exec to the first answer, and memory use with a zone of 100,000 names",
        "--times 3 --names 20000",
        Headline("first answer, small zone", "ms", ("servers", "lbdns", "small zone", "median_ms"), 0.25),
        Headline("memory, large zone", "MB", ("servers", "lbdns", "large zone", "rss_mb"), 0.1),
    ),
    "dns.amplification": Benchmark(
        "dns.amplification", "bytes sent per byte received, for each kind of query", "--seconds 1",
        Headline("highest ratio", "bytes/byte", ("worst_ratio",), 0.1),
    ),
    "dns.coherence": Benchmark(
        "dns.address_family_affinity", "CPU time per query with and without address family affinity",
        "--rounds 2 --seconds 1 --plane python",
        Headline("A and AAAA, affinity on / off", "ratio", ("planes", "python", "A and AAAA", "ratio"), 0.1),
    ),
}  # fmt: skip
