"""The farm into which faults are injected: an lbdns server, agents and, optionally, web servers."""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lbdns.client.control_client import send_command
from lbdns_shared.errors import LbdnsError
from lbdns_shared.keys import MasterKey, agent_line
from lbdns_tools.bench.dns.benchmark_farm import MEMBERS, LbdnsProgram, pool_table, write_key, zone_text
from lbdns_tools.bench.dns.latency_prober import await_answer, query_wire
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.faults.background_thread import background_thread
from lbdns_tools.faults.server_processes import ServerProcesses, find_processes
from lbdns_tools.faults.waiting import wait_for
from lbdns_tools.free_ports import free_ports
from lbdns_tools.lab.programs.lab_programs import LabProgram, LabPrograms

SESSION_NICENESS: Final = -10  # from -20 (most CPU time) to 19
START_S: Final = 30.0  # s that a server or an agent may take to start on a busy machine
HTTP_S: Final = 3.0  # s that an HTTP response may take
RESTART_S: Final = 0.1  # s after which a service manager restarts a server that has ended (systemd's RestartSec)
THIS_VERSION: Final = LbdnsProgram()


@dataclass(frozen=True, slots=True)
class FarmPlan:
    """The settings of the farm for a fault. ``interval`` is the agents' report interval in seconds.

    ``members`` lists the members of the pool ``web``; ``zone`` must contain the addresses of all members other than the
    default members. ``agents`` lists the members with an agent; if the list is empty, the fault itself sends the
    reports. ``queried`` lists the names that the measuring load queries in turn. ``hosts`` contains the members that
    answers may name, and maps each of them to its address. ``server``, ``pool``, ``collector`` and ``web`` contain
    additional lines for the tables [server], [[pool]], [collector] and [web]. ``tables`` is added to the end of the
    configuration, and ``zone`` to the zone file. ``check`` is the pool's check, with a placeholder for the port of the
    web servers.
    """

    workers: int = 2
    members: tuple[str, ...] = tuple(MEMBERS)
    agents: tuple[str, ...] = tuple(MEMBERS)
    interval: float = 1.0
    queried: tuple[str, ...] = ("best.hobbit", "round.robin.hobbit")
    hosts: Mapping[str, str] = field(default_factory=lambda: MEMBERS)
    web_servers: bool = False
    check: str = ""
    server: str = ""
    pool: str = ""
    collector: str = ""
    web: str = ""
    tables: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """The response to a request for /healthz: the status (0 if there is no response) and the text."""

    status: int
    text: str = ""


class FaultFarm:
    """The files, ports and programs of one farm, as a context manager that stops all programs on exit.

    Changes to ``prefix`` and ``environment`` affect servers that are started later. Changes to ``agent_environment``
    affect agents that are started later.
    """

    def __init__(self, folder: Path, plan: FarmPlan) -> None:
        self.folder, self.plan = folder, plan
        self.port, self.report_port, self.http_port, self.site_port = free_ports(4)
        self.state = folder / "state"
        self.state.mkdir(exist_ok=True)
        self.config = folder / "lbdns.toml"
        self.control_path = folder / "control.sock"
        self.keys: list[MasterKey] = [write_key(folder)]
        self.agent_port = self.report_port  # a relay may stand between the agents and the server
        self.bus = ""  # the section [bus], in configurations that are written from now on
        self.agents: dict[str, LabProgram] = {}
        self.web_servers: dict[str, LabProgram] = {}
        self.prefix: Sequence[str] = ()
        self.environment: Mapping[str, str] = {}
        self.agent_environment: Mapping[str, str] = {}
        self.server: LabProgram
        self._logs = folder / "logs"
        self._logs.mkdir()
        self._programs = LabPrograms(self._logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._programs.close()

    def start(self) -> None:
        """Write the files and start all programs. Raises LbdnsError."""
        self.write_files()
        if self.plan.web_servers:
            for name in MEMBERS:
                self.start_web_server(name)
        self.start_server()
        for name in self.plan.agents:
            self.start_agent(name)
        if self.plan.agents:
            self.await_usable(self.plan.agents)

    def write_files(self) -> None:
        (self.folder / "hobbit.zone").write_text(zone_text(fixed=False) + self.plan.zone)
        self.config.write_text(self.configuration())

    def configuration(self) -> str:
        plan = self.plan
        check = f'check = "{plan.check.format(port=self.site_port)}"\n' if plan.check else ""
        return (
            f'[server]\nlisten = ["127.0.0.1:{self.port}"]\nstate_dir = "state"\ncontrol = "control.sock"\n'
            f"workers = {plan.workers}\n{plan.server}"
            f'[collector]\nlisten = ["127.0.0.1:{self.report_port}"]\nkey_file = "report.key"\n{plan.collector}'
            f'[web]\nlisten = "127.0.0.1:{self.http_port}"\n{plan.web}'
            '[[zone]]\nname = "hobbit"\nfile = "hobbit.zone"\n'
            f"{pool_table('web', 'hobbit', plan.members)}{check}{plan.pool}{plan.tables}{self.bus}"
        )

    def start_server(
        self, *options: str, program: LbdnsProgram = THIS_VERSION, config: Path | None = None, wait: bool = True
    ) -> LabProgram:
        """Start a server as ``self.server`` and, if ``wait`` is set, wait until it answers. Raises LbdnsError."""
        command = program.command("serve", "-c", str(config or self.config), *options)
        ready = self.is_ready if wait else None
        self.server = self._programs.start("server", [*self.prefix, *command], ready, START_S, self.environment)
        favour_session(self.server.pid)
        return self.server

    def is_ready(self) -> bool:
        """Return whether a server answers queries and responds to /healthz with any status."""
        try:
            await_answer(self.port, query_wire("hobbit", "SOA"), 0.3, 0.1)
        except BenchmarkError:
            return False
        return self.health().status != 0

    def run(self, name: str, *command: str, environment: Mapping[str, str] | None = None) -> LabProgram:
        """Start another program, which logs to NAME.log, and stop it on exit."""
        return self._programs.start(name, command, env=environment)

    def start_agent(self, name: str, program: Sequence[str] = (), **options: str | Sequence[str]) -> LabProgram:
        """Start the real agent of a member; ``program`` replaces ``python -m lbdns_agent``.

        ``options`` replace and add options of the agent: one value, or one for each repetition.
        """
        key_file = self.folder / f"{name}.key"
        key_file.touch(mode=0o600)
        key_file.write_text(agent_line(self.keys[0].agent_key(name)) + "\n")
        site = f"http://{MEMBERS[name]}:{self.site_port}/server-status?auto" if self.plan.web_servers else "off"
        words: dict[str, str | Sequence[str]] = {
            "collector": f"127.0.0.1:{self.agent_port}", "name": name, "key-file": str(key_file),
            "interval": f"{self.plan.interval:g}", "server-status": site, "gateway": "off", "cgroup": "off",
            "alarm": "off", **options,
        }  # fmt: skip
        command = [*(program or (sys.executable, "-m", "lbdns_agent"))]
        for option, values in words.items():
            for value in (values,) if isinstance(values, str) else values:
                command += [f"--{option}", value]
        self.agents[name] = self._programs.start(f"agent-{name}", command, env=self.agent_environment)
        return self.agents[name]

    def start_web_server(self, name: str) -> LabProgram:
        listen = f"{MEMBERS[name]}:{self.site_port}"
        command = [sys.executable, "-m", "lbdns.demo.webserver", "--name", name, "--listen", listen]
        self.web_servers[name] = self._programs.start(f"web-{name}", command)
        return self.web_servers[name]

    def await_usable(self, names: Sequence[str], seconds: float = START_S) -> None:
        """Wait until exactly the members in ``names`` are usable. Raises LbdnsError after ``seconds``."""
        if wait_for(lambda: self.usable() == set(names), seconds) is None:
            raise LbdnsError(
                f"the usable members are {sorted(self.usable())}, not {sorted(names)}, after {seconds:g} s"
            )

    def processes(self) -> ServerProcesses:
        return find_processes(self.server.pid)

    def get(self, path: str, seconds: float = HTTP_S) -> tuple[int, str]:
        """Return the HTTP status and the body of a page. The status is 0 if no response arrives within ``seconds``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=seconds)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def health(self, path: str = "/healthz") -> Health:
        return Health(*self.get(path))

    def status(self) -> dict[str, Any]:
        """Return the status document, or an empty document if the server does not respond."""
        status, text = self.get("/api/v1/status")
        found: dict[str, Any] = json.loads(text) if status == 200 else {"pools": [], "server": {}}
        return found

    def members(self, pool: int = 0) -> dict[str, dict[str, Any]]:
        """Return the members of a pool in the status document, keyed by name (empty if the server does not respond)."""
        pools = self.status()["pools"]
        return {member["name"]: member for member in pools[pool]["members"]} if pools else {}

    def usable(self) -> set[str]:
        """Return the members of the first pool that are usable and not quarantined."""
        return {name for name, member in self.members().items() if is_usable(member)}

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a sample in /metrics, or 0 if there is no such sample."""
        for line in self.get("/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(f'{key}="{text}"' in head for key, text in labels.items()):
                return float(value)
        return 0.0

    def has_history(self, begin: float, end: float = 0.0) -> bool:
        """Return whether the history contains a score recorded between the Unix times ``begin`` and ``end``. If ``end``
        is 0, there is no upper limit."""
        until = f"&to={end}" if end else ""
        status, text = self.get(f"/api/v1/history?pool=web&metric=score&points=5000&from={begin}{until}")
        series = json.loads(text)["series"] if status == 200 else {}
        return any(value is not None for values in series.values() for value in values)

    def control(self, command: str, **words: object) -> Mapping[str, Any]:
        """Send a command to the control socket and return the reply. Raises LbdnsError."""
        return send_command(self.control_path, command, **words)

    def log(self) -> str:
        """Return the text that all servers of the farm have logged so far."""
        path = self._logs / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""


@contextlib.contextmanager
def service_manager(farm: FaultFarm) -> Iterator[None]:
    """Act as a service manager that restarts the server RESTART_S seconds after it exits, until the with statement
    ends."""

    def restart(over: threading.Event) -> None:
        while not over.wait(RESTART_S):
            if not farm.server.running:
                farm.start_server(wait=False)

    with background_thread("service-manager", restart):
        yield


def favour_session(pid: int) -> None:
    """Give a program's session a larger share of the CPU time than other sessions.

    This has an effect only for root, and only if the kernel groups processes by session.

    Without this priority, a server that runs alongside ten test suites receives an eleventh of the CPU time (sched(7)).
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(SESSION_NICENESS))


def is_usable(member: Mapping[str, Any]) -> bool:
    """Return whether a member in the status document is usable and not quarantined."""
    return member["state"] == "usable" and not member["guard"].startswith("quarantined")
