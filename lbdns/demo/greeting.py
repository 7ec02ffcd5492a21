"""The text that the demo prints when it is ready: addresses, and commands to try."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from lbdns.demo.farm_files import LOOPBACK, DemoPlan


def what_to_try(plan: DemoPlan, config: Path, seconds: float) -> str:
    """Return the text for a demo that was ready after ``seconds``."""
    dig = f"dig @{LOOPBACK} -p {plan.dns_port}"
    server = f"@{LOOPBACK}:{plan.dns_port}"
    program, where = _program(), f"-c {config}"
    first = plan.web_endpoints(plan.hosts[0])[0]
    webs = "\n".join(
        f"    {host.name:<8} {'  '.join(f'http://{endpoint}/' for endpoint in plan.web_endpoints(host))}"
        for host in plan.hosts
    )
    return f"""\
lbdns demo: ready after {seconds:.1f} s; Ctrl-C ends it

  DNS        {LOOPBACK}:{plan.dns_port} (UDP and TCP), zone hobbit and its reverse zone
  page       http://{LOOPBACK}:{plan.http_port}/
  reports    {LOOPBACK}:{plan.report_port}, signed, every {plan.interval:g} s from each of three agents
  web servers, the members of the pool:
{webs}

Try, in another terminal:
  {program} ask best.hobbit {server}      the best server now
  {dig} best.hobbit                   the same, with dig
  {dig} round.robin.hobbit +short     each member in turn
  {dig} -x {plan.hosts[0].address} +short          the reverse zone
  {dig} explain.best.hobbit TXT       why
  {program} status {where}
  {program} top {where}
  {program} drain {plan.hosts[0].name} --for 1min --reason 'just trying' {where}
  {program} watch {where}
Put one of them under load, and ask again:
  for i in 1 2 3 4 5; do curl -s 'http://{first}/work?ms=3000' & done; wait
"""


def _program() -> str:
    """Return the command that runs this program here: the shell may not find it in a virtual environment."""
    path = Path(sys.argv[0])
    if path.name != "lbdns":
        return "lbdns"
    with contextlib.suppress(ValueError):
        return str(path.absolute().relative_to(Path.cwd()))
    return str(path)
