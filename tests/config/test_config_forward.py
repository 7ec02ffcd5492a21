"""Tests of lbdns.toml: upstreams for names outside the zones, and the clients that may use these upstreams."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from tests.config.config_files import ZONE, Load


def forward(upstream: str, allow: str = '["10.0.0.0/8"]', listen: str = '["127.0.0.1:53", "[::1]:53"]') -> str:
    return f"[server]\nlisten = {listen}\n{ZONE}[forward]\nupstream = {upstream}\nallow = {allow}\n"


class TestForward:
    """In these files, ``[forward]`` is on line 6, upstream on line 7, and allow on line 8."""

    def test_off_by_default(self, load: Load) -> None:
        for text in (ZONE, ZONE + "[forward]\n"):
            assert (load(text).forward.upstream, load(text).forward.allow) == ((), ())

    def test_on(self, load: Load) -> None:
        text = forward('["9.9.9.9", "192.0.2.1:5353", "[2001:db8::1]:53", "9.9.9.9"]', '["10.0.0.0/8", "fd00::1"]')
        config = load(text).forward
        assert config.upstream == (Endpoint("9.9.9.9", 53), Endpoint("192.0.2.1", 5353), Endpoint("2001:db8::1", 53))
        assert config.allow == (ip_network("10.0.0.0/8"), ip_network("fd00::1/128"))

    @pytest.mark.parametrize(
        ("text", "findings"),
        [
            (
                forward("[]", "[]"),
                [
                    ':7: [forward] upstream: must list at least one server, such as "192.0.2.1:53"',
                    ':8: [forward] allow: must list the networks whose queries are forwarded, such as "10.0.0.0/8"',
                ],
            ),
            (
                ZONE + '[forward]\nupstream = "192.0.2.1"\n',
                [':4: [forward] allow: must list the networks whose queries are forwarded, such as "10.0.0.0/8"'],
            ),
            (
                forward('["192.0.2.1"]', '["0.0.0.0/0"]'),
                [
                    ":8: [forward] allow: '0.0.0.0/0' would create an open resolver, which attackers could abuse; "
                    "list your own networks"
                ],
            ),
            (
                forward('["192.0.2.1"]', '["10.0.0.1/8"]'),
                [
                    ":8: [forward] allow: '10.0.0.1/8' is not a network: the address has bits beyond the prefix length"
                    "; the network is 10.0.0.0/8; write a network such as 10.0.0.0/8 or "
                    "2001:db8::/32, or a single address"
                ],
            ),
            (
                forward('["dns.example"]'),
                [
                    ":7: [forward] upstream: 'dns.example': an upstream must be an address, such as "
                    "192.0.2.1:53, not a name"
                ],
            ),
            (
                forward('["0.0.0.0", "192.0.2.1:0", "224.0.0.251"]'),
                [
                    f":7: [forward] upstream: {text!r} is not a host's address; write, for example, 192.0.2.1:53"
                    for text in ("0.0.0.0", "192.0.2.1:0", "224.0.0.251")
                ],
            ),
            (
                forward(str([f"192.0.2.{number}" for number in range(9)])),
                [":7: [forward] upstream: must list at most 8 servers, not 9"],
            ),
            (forward('["192.0.2.1"]') + "alow = 1\n", [":9: [forward] alow: unknown key. Perhaps you meant 'allow'?"]),
        ],
    )
    def test_mistakes(self, load: Load, tmp_path: Path, text: str, findings: list[str]) -> None:
        with pytest.raises(ConfigError) as caught:
            load(text)
        assert list(caught.value.findings) == [f"{tmp_path}/lbdns.toml{finding}" for finding in findings]

    @pytest.mark.parametrize(
        ("listen", "upstream", "through"),
        [
            ('["127.0.0.1:53"]', "127.0.0.1", "127.0.0.1:53"),
            ('["[::1]:53"]', "0:0::1", "[::1]:53"),
            ('["192.0.2.1:5353"]', "192.0.2.1:5353", "192.0.2.1:5353"),
            ('["0.0.0.0:53"]', "127.0.0.9", "0.0.0.0:53"),
            ('["[::]:53"]', "::1", "[::]:53"),
        ],
    )
    def test_not_to_ourselves(self, load: Load, listen: str, upstream: str, through: str) -> None:
        with pytest.raises(ConfigError, match=r"queries would loop forever") as caught:
            load(forward(f'["{upstream}"]', listen=listen))
        assert f"is this server itself, which listens on {through}" in str(caught.value)

    @pytest.mark.parametrize(
        ("listen", "upstream"),
        [
            ('["127.0.0.1:53"]', "127.0.0.2"),
            ('["127.0.0.1:53"]', "127.0.0.1:5353"),
            ('["0.0.0.0:5300"]', "127.0.0.1"),
            ('["0.0.0.0:53"]', "::1"),
            ('["0.0.0.0:53"]', "192.0.2.1"),
        ],
    )
    def test_to_neighbours(self, load: Load, listen: str, upstream: str) -> None:
        assert len(load(forward(f'["{upstream}"]', listen=listen)).forward.upstream) == 1
