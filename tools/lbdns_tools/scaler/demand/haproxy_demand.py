"""Demand from HAProxy's statistics: the sessions of a backend and of its servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demand.counter_rates import CounterRates
from lbdns_tools.scaler.demand.demand_source import DemandError, DemandReading, ServerLoad
from lbdns_tools.scaler.front_ends.haproxy_front_end import backend_key
from lbdns_tools.scaler.front_ends.haproxy_socket import HaproxySocket, StatsAddress, socket_key
from lbdns_tools.scaler.front_ends.haproxy_tables import parse_info, parse_stat

BACKEND: Final = "BACKEND"  # the name of the row with a backend's sum


@dataclass(frozen=True, slots=True)
class HaproxyDemandConfig:
    """The section ``[demand]`` of kind ``haproxy``."""

    socket: StatsAddress = socket_key()
    backend: str = backend_key()


class HaproxyDemand:
    """The sessions that arrive at one backend. In HTTP mode, a session is one request.

    The backend counts a session when it arrives, even if the session then waits in a queue or finds no server. The
    demand is therefore complete even if the farm is overloaded.
    """

    def __init__(self, config: HaproxyDemandConfig) -> None:
        self._config = config
        self._socket = HaproxySocket(config.socket)
        self._rates = CounterRates()

    async def read(self, now: float) -> DemandReading:
        """Return the demand since the previous call. The first call returns the rate that HAProxy reports for the last
        second."""
        command = f"show stat {self._config.backend} 6 -1"  # 6: the backend and its servers
        try:
            info = await self._socket.ask("show info")
            reply = await self._socket.ask(command)
        except LbdnsError as error:
            raise DemandError(str(error)) from None
        try:
            uptime = float(parse_info(info)["Uptime_sec"]) + 1.0  # it is rounded down
            rows = parse_stat(reply)
        except (ValueError, KeyError):
            raise DemandError(str(self._socket.refusal(command, reply))) from None
        if BACKEND not in rows:
            raise DemandError(f"{self._config.socket}: HAProxy has no backend {self._config.backend!r}")
        rates = {}
        for name, row in rows.items():
            rate = self._rates.rate(name, row.sessions, now, uptime)
            rates[name] = float(row.rate) if rate is None else rate
        self._rates.keep(rows)
        loads = {
            name: ServerLoad(requests_per_s=rates[name], busy=float(row.current))
            for name, row in rows.items()
            if name != BACKEND
        }
        return DemandReading(rates[BACKEND], loads)
