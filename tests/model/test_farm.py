"""Tests of joining a configuration with its zones: members, addresses, owner names and reporting hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm
from lbdns.zones import names
from lbdns_shared.errors import ConfigError
from tests.config.config_files import pool_table

HEAD = "$TTL 300\n@ SOA ns hostmaster 7 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n"
HOSTS = "gandalf A 192.0.2.3\ngandalf AAAA 2001:db8::3\nfrodo A 192.0.2.2\nbilbo AAAA 2001:db8::1\n"


def farm(folder: Path, pools: str, zones: Mapping[str, str]) -> Farm:
    """Write a farm's files: each zone consists of its first records, four hosts and the given records."""
    text = ""
    for name, records in zones.items():
        text += f'[[zone]]\nname = "{name}"\nfile = "{name}.zone"\n'
        (folder / f"{name}.zone").write_text(HEAD + records)
    (folder / "lbdns.toml").write_text(text + pools)
    return load_farm(folder / "lbdns.toml")


class TestGood:
    def test_members_with_their_addresses(self, tmp_path: Path) -> None:
        built = farm(tmp_path, pool_table("gandalf", "Frodo", "bilbo"), {"hobbit": HOSTS})
        (web,) = built.pools
        assert [(m.name, m.full_name, m.owner, m.addresses) for m in web.members] == [
            ("gandalf", "gandalf.hobbit", b"\7gandalf\6hobbit\0", ("192.0.2.3", "2001:db8::3")),
            ("frodo", "frodo.hobbit", b"\5frodo\6hobbit\0", ("192.0.2.2",)),
            ("bilbo", "bilbo.hobbit", b"\5bilbo\6hobbit\0", ("2001:db8::1",)),
        ]
        assert web.name == "web"
        assert web.zone is built.zones[b"\6hobbit\0"]
        assert built.warnings == ()

    def test_the_names_it_is_asked_by(self, tmp_path: Path) -> None:
        (web,) = farm(tmp_path, pool_table(), {"hobbit": HOSTS}).pools
        assert web.owners == {
            names.from_text("best.hobbit"): "best",
            names.from_text("round.robin.hobbit"): "round_robin",
            names.from_text("weighted.hobbit"): "weighted",
        }

    def test_the_apex(self, tmp_path: Path) -> None:
        (web,) = farm(tmp_path, pool_table(more='names = { "@" = "best" }'), {"hobbit": HOSTS}).pools
        assert web.owners == {b"\6hobbit\0": "best"}

    def test_the_root_zone(self, tmp_path: Path) -> None:
        (tmp_path / "root.zone").write_text(HEAD + HOSTS)
        (tmp_path / "lbdns.toml").write_text('[[zone]]\nname = "."\nfile = "root.zone"\n' + pool_table(zone="."))
        (web,) = load_farm(tmp_path / "lbdns.toml").pools
        assert (web.members[0].full_name, web.members[0].owner) == ("gandalf", b"\7gandalf\0")
        assert names.from_text("best") in web.owners

    def test_several_pools_in_one_zone(self, tmp_path: Path) -> None:
        pools = pool_table("gandalf", "frodo") + pool_table("gandalf", more='names = { mail = "best" }', name="mail")
        built = farm(tmp_path, pools, {"hobbit": HOSTS})
        assert [p.name for p in built.pools] == ["web", "mail"]

    def test_records_beside_an_address_pool(self, tmp_path: Path) -> None:
        more = 'names = { www = "best" }\nanswer = "address"'
        assert farm(tmp_path, pool_table(more=more), {"hobbit": HOSTS + "www MX 10 gandalf\n"}).pools

    def test_what_lies_outside_a_zone_is_a_warning(self, tmp_path: Path) -> None:
        built = farm(tmp_path, pool_table(), {"hobbit": HOSTS + "x.orc. A 192.0.2.9\n"})
        assert built.warnings == (f"{tmp_path}/hobbit.zone:9: x.orc.: lies outside the zone and is ignored",)

    def test_a_farm_without_pools_serves_its_zones(self, tmp_path: Path) -> None:
        assert set(farm(tmp_path, "", {"hobbit": HOSTS, "orc": ""}).zones) == {b"\6hobbit\0", b"\3orc\0"}


class TestHosts:
    def test_members_without_an_agent_send_no_reports(self, tmp_path: Path) -> None:
        pools = pool_table("gandalf", "frodo", more='check = "icmp"\nagentless = ["frodo"]')
        built = farm(tmp_path, pools, {"hobbit": HOSTS})
        assert built.hosts.keys() == {"gandalf", "gandalf.hobbit"}
        assert built.agentless == {"frodo.hobbit"}
        assert [member.agentless for member in built.pools[0].members] == [False, True]

    def test_short_and_full_names(self, tmp_path: Path) -> None:
        hosts = farm(tmp_path, pool_table("gandalf", "frodo"), {"hobbit": HOSTS}).hosts
        assert set(hosts) == {"gandalf", "gandalf.hobbit", "frodo", "frodo.hobbit"}
        for name in ("gandalf", "gandalf.hobbit"):
            assert hosts[name].members == ("gandalf.hobbit",)
            assert hosts[name].addresses == ("192.0.2.3", "2001:db8::3")
        assert hosts["gandalf"] is hosts["gandalf.hobbit"], "one object takes half the memory of two"

    def test_one_machine_in_two_pools_reports_once(self, tmp_path: Path) -> None:
        pools = pool_table() + pool_table(more='names = { mail = "best" }', name="mail")
        assert farm(tmp_path, pools, {"hobbit": HOSTS}).hosts["gandalf"].members == ("gandalf.hobbit",)

    def test_one_machine_in_two_zones_reports_for_both(self, tmp_path: Path) -> None:
        pools = pool_table() + pool_table(name="other", zone="orc")
        built = farm(tmp_path, pools, {"hobbit": HOSTS, "orc": HOSTS})
        assert built.hosts["gandalf"].members == ("gandalf.hobbit", "gandalf.orc")
        assert built.warnings == ()

    def test_two_machines_of_one_name_need_their_full_names(self, tmp_path: Path) -> None:
        pools = pool_table() + pool_table(name="other", zone="orc")
        built = farm(tmp_path, pools, {"hobbit": HOSTS, "orc": "gandalf A 198.51.100.1\n"})
        assert set(built.hosts) == {"gandalf.hobbit", "gandalf.orc"}
        assert built.hosts["gandalf.orc"].addresses == ("198.51.100.1",)
        (warning,) = built.warnings
        assert "'gandalf' is a different machine in each zone" in warning
        assert "--name gandalf.hobbit or gandalf.orc" in warning


#: What is wrong, the pools, more records of zone hobbit, the finding after "FILE: pool web: "
MISTAKES: list[tuple[str, str, str, str]] = [
    ("no such zone", pool_table(zone="orc"), "", "zone: there is no [[zone]] 'orc'; configured zones: hobbit"),
    (
        "a member that isn't there",
        pool_table("gandalf", "sauron"),
        "",
        "members: 'sauron' has no address in zone hobbit; add an A or AAAA record",
    ),
    (
        "a member without an address",
        pool_table("text"),
        "text TXT hello\n",
        "members: 'text' has no address in zone hobbit; add an A or AAAA record",
    ),
    (
        "a member that is an alias",
        pool_table("mithrandir"),
        "mithrandir CNAME gandalf\n",
        "members: 'mithrandir' is an alias in zone hobbit; use the host's own name",
    ),
    (
        "a name with an address",
        pool_table(),
        "best A 192.0.2.9\n",
        "names: best.hobbit already has records in the zone file; remove them or give the pool another name",
    ),
    (
        "a CNAME's name with a text",
        pool_table(),
        "weighted TXT hello\n",
        "names: weighted.hobbit already has records in the zone file; remove them or give the pool another name",
    ),
    (
        "an alias at an address pool's name",
        pool_table(more='names = { www = "best" }\nanswer = "address"'),
        "www CNAME gandalf\n",
        "names: www.hobbit already has records in the zone file; remove them or give the pool another name",
    ),
    (
        "addresses at the apex of a pool",
        pool_table(more='names = { "@" = "best" }'),
        "@ A 192.0.2.9\n",
        "names: hobbit already has records in the zone file; remove them or give the pool another name",
    ),
    (
        "a name below a delegation",
        pool_table(),
        "robin NS ns.robin\nns.robin A 192.0.2.9\n",
        "names: round.robin.hobbit lies at or below the delegation of robin.hobbit, so other servers answer for it",
    ),
    (
        "a name below a DNAME",
        pool_table(),
        "robin DNAME hood.example.\n",
        "names: round.robin.hobbit lies below the DNAME of robin.hobbit, which redirects it to another name",
    ),
    (
        "a member below a delegation",
        pool_table("gandalf", "ns.sub"),
        "sub NS ns.sub\nns.sub A 192.0.2.9\n",
        "members: 'ns.sub' lies at or below the delegation of sub.hobbit, so other servers answer for it",
    ),
    (
        "a name that gets too long",
        pool_table(more=f'names = {{ "{".".join(["a" * 60] * 4 + ["bbb"])}" = "best" }}'),
        "",
        f"names: '{'.'.join(['a' * 60] * 4 + ['bbb'])}' is too long for a name in zone hobbit",
    ),
]


def without_lines(error: ConfigError) -> list[str]:
    """Return the messages without line numbers. Every message must have a line number."""
    found = [re.subn(r"lbdns\.toml:\d+: ", "lbdns.toml: ", finding) for finding in error.findings]
    assert all(count == 1 for _, count in found)
    return [text for text, _ in found]


class TestMistakes:
    @pytest.mark.parametrize(("pools", "records", "finding"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
    def test_each_is_said(self, tmp_path: Path, pools: str, records: str, finding: str) -> None:
        with pytest.raises(ConfigError) as caught:
            farm(tmp_path, pools, {"hobbit": HOSTS + records})
        assert without_lines(caught.value) == [f"{tmp_path}/lbdns.toml: [pool web] {finding}"]

    def test_a_dname_at_the_apex_leaves_the_zone_nothing_to_say(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            farm(tmp_path, pool_table(more='names = { best = "best" }'), {"hobbit": HOSTS + "@ DNAME hood.example.\n"})
        why = "lies below the DNAME of hobbit, which redirects it to another name"
        where = f"{tmp_path}/lbdns.toml: [pool web]"
        assert without_lines(caught.value) == [f"{where} members: 'gandalf' {why}", f"{where} names: best.hobbit {why}"]

    @pytest.mark.parametrize("first", ["agentless", "with agent"])
    def test_an_agent_in_one_pool_and_none_in_another(self, tmp_path: Path, first: str) -> None:
        mail, web = 'names = { mail = "best" }', 'check = "icmp"\nagentless = ["gandalf"]'
        both = (f"{mail}\n{web}", "") if first == "with agent" else (mail, web)
        with pytest.raises(ConfigError) as caught:
            farm(tmp_path, pool_table(more=both[1]) + pool_table(more=both[0], name="mail"), {"hobbit": HOSTS})
        assert without_lines(caught.value) == [
            f"{tmp_path}/lbdns.toml: [pool mail] agentless: 'gandalf' has an agent in only one of the pools "
            "web and mail; list the member under agentless in both pools or in neither"
        ]

    def test_two_pools_with_one_name_of_one_owner(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            farm(tmp_path, pool_table() + pool_table(more='names = { BEST = "best" }', name="mail"), {"hobbit": HOSTS})
        assert without_lines(caught.value) == [
            f"{tmp_path}/lbdns.toml: [pool mail] names: best.hobbit is already a name of pool web"
        ]

    def test_the_same_owner_of_two_zones(self, tmp_path: Path) -> None:
        pools = pool_table(more='names = { "a.b" = "best" }') + pool_table(
            more='names = { a = "best" }', name="deep", zone="b.hobbit"
        )
        with pytest.raises(ConfigError, match=r":16: \[pool deep\] names: a\.b\.hobbit is already a name of pool web"):
            farm(tmp_path, pools, {"hobbit": HOSTS, "b.hobbit": HOSTS})

    def test_no_zone_at_all_is_said_so(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"must contain at least one \[\[zone\]\]"):
            farm(tmp_path, pool_table(), {})

    def test_all_at_once_also_beside_a_zone_that_can_t_be_read(self, tmp_path: Path) -> None:
        pools = (
            pool_table("sauron", zone="orc", name="lost")
            + pool_table()
            + pool_table("nobody", zone="ent", name="trees")
        )
        with pytest.raises(ConfigError) as caught:
            farm(tmp_path, pools, {"hobbit": "gandalf A 1.2.3\n", "orc": HOSTS, "elf": "x A\n"})
        places = [finding.partition(f"{tmp_path}/")[2].partition(": ")[0] for finding in caught.value.findings]
        assert places == ["lbdns.toml:13", "lbdns.toml:20", "hobbit.zone:5", "elf.zone:5"]
        assert "[pool web]" not in str(caught.value), "a pool of a zone that wasn't read can't be judged"

    def test_a_misspelt_member_among_many_lines(self, tmp_path: Path) -> None:
        pools = (
            pool_table("gandalf", "gandlaf").replace("[", "[\n").replace(", ", ",\n  ").replace("[\n[\npool", "[[pool")
        )
        with pytest.raises(ConfigError) as caught:
            farm(tmp_path, pools, {"hobbit": HOSTS})
        (finding,) = caught.value.findings
        line = (tmp_path / "lbdns.toml").read_text().splitlines().index('  "gandlaf"]') + 1
        assert finding.startswith(f"{tmp_path}/lbdns.toml:{line}: [pool web] members: 'gandlaf' has no address")
        assert finding.endswith(". Perhaps you meant 'gandalf'?")

    def test_a_missing_zone_file_has_no_consequences(self, tmp_path: Path) -> None:
        (tmp_path / "lbdns.toml").write_text(
            '[[zone]]\nname = "hobbit"\nfile = "nope.zone"\n' + pool_table() + pool_table(zone="hobit", name="mail")
        )
        with pytest.raises(ConfigError) as caught:
            load_farm(tmp_path / "lbdns.toml")
        assert list(caught.value.findings) == [
            f"{tmp_path}/lbdns.toml:10: [pool mail] zone: there is no [[zone]] 'hobit'. Perhaps you meant 'hobbit'?",
            f"{tmp_path}/nope.zone: zone hobbit: cannot read the file: No such file or directory",
        ]

    def test_a_zone_file_that_is_not_there(self, tmp_path: Path) -> None:
        (tmp_path / "lbdns.toml").write_text('[[zone]]\nname = "hobbit"\nfile = "nope.zone"\n')
        with pytest.raises(ConfigError, match=r"nope\.zone: zone hobbit: cannot read the file: No such file"):
            load_farm(tmp_path / "lbdns.toml")
