"""Members with a known amount of observed work."""

from __future__ import annotations

from lbdns.choosing.request_cost import RequestCost


def work(
    requests_per_cpu_second: float, seconds: int = 60, per_second: float = 10.0, metric: str = "httpd"
) -> RequestCost:
    """Return the request cost of a member that has served ``per_second`` requests/s for ``seconds``."""
    found = RequestCost()
    for second in range(seconds):
        total = second * per_second
        metrics = {"requests_total": total, "cpu_count": 1.0}
        if metric == "httpd":
            metrics["httpd_cpu_seconds"] = total / requests_per_cpu_second
        else:
            metrics["cpu_idle"] = 100 * (1 - per_second / requests_per_cpu_second)
        found.observe(metrics, 1.0)
    return found
