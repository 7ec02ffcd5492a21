"""A pool with sites, from the configuration to answers with their scopes, on both planes and with several workers."""

from __future__ import annotations

import ipaddress
import signal
from pathlib import Path
from typing import Any, Final

import dns.edns
import dns.message
import dns.query
import pytest

from tests.end_to_end.harness import FakeAgent, Site, agents, new_site, serving
from tests.end_to_end.process import PATIENCE
from tests.end_to_end.protocol import PLANES
from tests.mmdb_files import database, place

MEMBERS: Final = {"gandalf": ("127.0.0.18",), "frodo": ("127.0.0.17",), "sam": ("127.0.0.19",)}
BER: Final = {"127.0.0.18"}
PAR: Final = {"127.0.0.17", "127.0.0.19"}
SITES: Final = '[sites]\norder = ["ber", "par"]\nnetworks = "networks"\n'
POOL: Final = (
    'names = { rr = "round_robin" }\nanswer = "address"\nsites = { ber = ["gandalf"], par = ["frodo", "sam"] }'
)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("plane", PLANES)
def test_clients_get_their_nearest_site_and_another_one_if_it_fails(tmp_path: Path, plane: str, workers: int) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write(server=f'plane = "{plane}"\nworkers = {workers}', pool=POOL)
    site.config.write_text(site.config.read_text() + SITES)
    (tmp_path / "networks").write_text("10.2.0.0/16 par\n")
    with agents(site) as senders, serving(site) as server:
        send(senders)
        server.until(lambda: answers(site, "10.1.0.0/24") == (BER, {15}), "clients in no network get the default site")
        server.until(lambda: answers(site, "10.2.3.0/24") == (PAR, {16}), "clients near par get both members of par")
        server.until(
            lambda: answers(site, "0.0.0.0/0") == (BER, {0}), "an address that must not be used decides nothing"
        )
        assert [found["name"] for found in pool_status(site)["sites"]] == ["ber", "par"]
        assert [order["sites"] for order in pool_status(site)["orders"]] == [["ber", "par"], ["par", "ber"]]
        senders["frodo"].send("bye")
        senders["sam"].send("bye")
        server.until(lambda: answers(site, "10.2.3.0/24") == (BER, {16}), "the clients of par get ber")
        server.until(lambda: reason(site) == "has no usable member", "the status states why")
        name, labels = "lbdns_site_answers_total", {"order": "par ber", "site": "ber"}
        server.until(lambda: site.metric(name, pool="web", **labels) > 0, "answers are counted by order and site")
        assert site.metric("lbdns_site_usable_members", pool="web", site="par") == 0

        def is_back(subnet: str) -> bool:
            send(senders)  # clients return step by step, with each report
            return answers(site, subnet) == (PAR, {16})

        server.until(lambda: is_back("10.2.3.0/24"), "the clients of par return")
        (tmp_path / "networks").write_text("10.3.0.0/16 par\n")
        server.process.send_signal(signal.SIGHUP)
        server.until(lambda: is_back("10.3.0.0/24"), "a reload reads the table again")
        server.until(lambda: answers(site, "10.2.3.0/24") == (BER, {16}), "clients in the old network get ber")


@pytest.mark.parametrize("plane", PLANES)
def test_a_database_knows_the_places_of_clients(tmp_path: Path, plane: str) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write(server=f'plane = "{plane}"\nworkers = 2', pool=POOL)
    places = 'database = "places.mmdb"\ncountries = { FR = ["par"] }\n'
    site.config.write_text(site.config.read_text() + SITES + places)
    (tmp_path / "networks").write_text("10.2.3.0/24 ber\n")
    (tmp_path / "places.mmdb").write_bytes(database({"10.2.0.0/16": place("EU", "FR")}))
    with agents(site) as senders, serving(site) as server:
        send(senders)
        server.until(lambda: answers(site, "10.2.9.0/24") == (PAR, {21}), "clients in France get both members of par")
        server.until(lambda: answers(site, "10.2.3.0/24") == (BER, {24}), "a network precedes the place")
        server.until(lambda: answers(site, "10.9.3.0/24") == (BER, {13}), "clients in no place get the default site")
        (tmp_path / "places.mmdb").write_bytes(database({"10.9.0.0/16": place("EU", "FR")}))
        server.process.send_signal(signal.SIGHUP)
        server.until(lambda: answers(site, "10.9.3.0/24") == (PAR, {16}), "a reload reads the database again")
        (tmp_path / "places.mmdb").write_text("not a database")
        server.process.send_signal(signal.SIGHUP)
        server.until(lambda: "places.mmdb is not a MaxMind database" in server.errors, "the error is logged")
        server.until(lambda: answers(site, "10.9.3.0/24") == (PAR, {16}), "the old configuration stays")


def send(senders: dict[str, FakeAgent]) -> None:
    for sender in senders.values():
        sender.send()


def answers(site: Site, subnet: str, count: int = 6) -> tuple[set[str], set[int]]:
    """Return the addresses and the scopes in ``count`` answers to clients in ``subnet``."""
    network = ipaddress.ip_network(subnet)
    option = dns.edns.ECSOption(str(network.network_address), network.prefixlen)
    addresses, scopes = set(), set()
    for _ in range(count):
        query = dns.message.make_query("rr.hobbit", "A", use_edns=0, options=[option])
        response = dns.query.udp(query, site.address, PATIENCE, site.dns_port)
        addresses.add(str(response.answer[0][0]))
        scopes |= {found.scopelen or 0 for found in response.options if isinstance(found, dns.edns.ECSOption)}
    return addresses, scopes


def pool_status(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = site.status()["pools"][0]
    return found


def reason(site: Site) -> str:
    found: str = pool_status(site)["orders"][1]["why"]
    return found
