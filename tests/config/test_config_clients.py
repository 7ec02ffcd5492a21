"""Tests of lbdns.toml: settings that are visible to clients, cookies, and the rate limit."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from lbdns.config import CookiesConfig, RateLimitConfig
from lbdns_shared.errors import ConfigError
from tests.config.config_files import ZONE, Load

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class TestWhatClientsSee:
    """Tests of settings payload, identity and version of ``[server]``, and of ``[cookies]`` and ``[rate_limit]``."""

    def test_defaults(self, load: Load) -> None:
        for text in (ZONE, ZONE + "[cookies]\n[rate_limit]\n"):
            config = load(text)
            assert (config.server.payload, config.server.identity, config.server.version) == (1232, "", "")
            assert config.server.xdp == ()
            assert config.cookies == CookiesConfig(None, 512)
            assert config.rate_limit == RateLimitConfig(1000, 2, 24, 56, LOOPBACK)

    def test_all_of_it(self, load: Load, tmp_path: Path) -> None:
        config = load(
            '[server]\npayload = 512\nidentity = "ns1 ÄÖ"\nversion = "1"\nxdp = ["eth0", "eth1.7", "eth0"]\n'
            + ZONE
            + '[cookies]\nsecret_file = "cookie.secret"\nudp_without = 1232\n[rate_limit]\nresponses_per_second = 0\n'
            'slip = 0\nipv4_prefix = 32\nipv6_prefix = 128\nexempt = ["10.0.0.0/8", "2001:db8::1"]\n'
        )
        assert (config.server.payload, config.server.identity, config.server.version) == (512, "ns1 ÄÖ", "1")
        assert config.server.xdp == ("eth0", "eth1.7")
        assert config.cookies == CookiesConfig(tmp_path / "cookie.secret", 1232)
        exempt = (ip_network("10.0.0.0/8"), ip_network("2001:db8::1/128"))
        assert config.rate_limit == RateLimitConfig(0, 0, 32, 128, exempt)

    def test_nobody_exempt(self, load: Load) -> None:
        assert load(ZONE + "[rate_limit]\nexempt = []\n").rate_limit.exempt == ()

    @pytest.mark.parametrize(
        ("text", "finding"),
        [
            ("[server]\npayload = 511\n", ":5: [server] payload: must be a whole number from 512 to 1232, not 511"),
            ("[server]\npayload = 4096\n", ":5: [server] payload: must be a whole number from 512 to 1232, not 4096"),
            (
                '[server]\nxdp = ["a/b"]\n',
                ":5: [server] xdp: 'a/b' is not a name of a network interface; 'ip link' lists them",
            ),
            (f'[server]\nidentity = "{"x" * 256}"\n', ":5: [server] identity: must not be longer than 255 bytes"),
            (f'[server]\nversion = "{"Ä" * 128}"\n', ":5: [server] version: must not be longer than 255 bytes"),
            (
                "[cookies]\nudp_without = 500\n",
                ":5: [cookies] udp_without: must be a whole number from 512 to 1232, not 500",
            ),
            ("[cookies]\nsecret = 1\n", ":5: [cookies] secret: unknown key. Perhaps you meant 'secret_file'?"),
            (
                "[rate_limit]\nresponses_per_second = -1\n",
                ":5: [rate_limit] responses_per_second: must be a whole number from 0 to 1000000000, not -1",
            ),
            ("[rate_limit]\nslip = 11\n", ":5: [rate_limit] slip: must be a whole number from 0 to 10, not 11"),
            (
                "[rate_limit]\nipv4_prefix = 33\n",
                ":5: [rate_limit] ipv4_prefix: must be a whole number from 1 to 32, not 33",
            ),
            (
                "[rate_limit]\nipv6_prefix = 0\n",
                ":5: [rate_limit] ipv6_prefix: must be a whole number from 1 to 128, not 0",
            ),
            (
                '[rate_limit]\nexempt = ["10.0.0.1/8"]\n',
                ":5: [rate_limit] exempt: '10.0.0.1/8' is not a network: the address has bits beyond the prefix length"
                "; the network is 10.0.0.0/8; write a network such as 10.0.0.0/8 or "
                "2001:db8::/32, or a single address",
            ),
            ("[rate_limit]\nexemt = []\n", ":5: [rate_limit] exemt: unknown key. Perhaps you meant 'exempt'?"),
        ],
    )
    def test_mistakes(self, load: Load, tmp_path: Path, text: str, finding: str) -> None:
        with pytest.raises(ConfigError) as caught:
            load(ZONE + text)
        assert list(caught.value.findings) == [f"{tmp_path}/lbdns.toml{finding}"]


class TestWebClients:
    """Tests of the names and limits in ``[web]``."""

    def test_defaults(self, load: Load) -> None:
        web = load(ZONE).web
        assert (web.names, web.connections_per_client) == ((), 64)

    def test_names_are_compared_without_case_or_final_dot(self, load: Load) -> None:
        web = load(ZONE + '[web]\nnames = ["DNS.Example.com.", "ns1"]\nconnections_per_client = 100\n').web
        assert (web.names, web.connections_per_client) == (("dns.example.com", "ns1"), 100)

    @pytest.mark.parametrize(
        ("line", "finding"),
        [
            ('names = ["dns:8053"]', "'dns:8053' is not a host name; write it without a port, such as dns.example.com"),
            ('names = ["*.example.com"]', "'*.example.com' is not a host name"),
            ('names = [""]', "'' is not a host name"),
            ("connections_per_client = 3", "must be a whole number from 4 to 132, not 3"),
        ],
    )
    def test_mistakes(self, load: Load, line: str, finding: str) -> None:
        with pytest.raises(ConfigError) as error:
            load(ZONE + f"[web]\n{line}\n")
        assert f":5: [web] {line.split()[0]}: {finding}" in str(error.value)
