"""Tests of steering over HTTP: who may steer, what is refused, and that other sites cannot steer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.config.web_section import WebConfig
from lbdns.secrets.http_credentials import HttpCredentials
from lbdns_collector.web import access_control
from lbdns_collector.web.access_control import AccessControl
from lbdns_collector.web.steering import HEADER, PATHS, refusal
from lbdns_shared.errors import LastMemberError, LbdnsError, UnknownNameError
from tests.collector.web.served_app import Served, served

SAM = HttpCredentials("sam", "potatoes", ("reader",))
TWO = HttpCredentials("sam", "potatoes", ("reader",), ("other", "steerer"))
DRAIN = "/api/v1/drain?member=frodo"


def access(credentials: HttpCredentials = SAM, *, steer: bool = True) -> AccessControl:
    rules = AccessControl()
    rules.apply(WebConfig(steer=steer), credentials)
    return rules


class Orders:
    """Records the commands that reach the server, and replies to them."""

    def __init__(self, error: LbdnsError | None = None) -> None:
        self.received: list[tuple[Mapping[str, Any], str]] = []
        self._error = error

    async def __call__(self, fields: Mapping[str, Any], by: str) -> Mapping[str, Any]:
        self.received.append((fields, by))
        if self._error:
            raise self._error
        return {"members": ["frodo.hobbit"]}


async def post(
    web: Served, path: str, credentials: HttpCredentials | None = SAM, **headers: str
) -> tuple[int, dict[str, Any]]:
    sent = {HEADER: "1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if credentials:
        sent["Authorization"] = credentials.header()
    async with web.session.post(web.url(path), headers={k: v for k, v in sent.items() if v}) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("command", PATHS.values())
async def test_a_command_reaches_the_server_with_its_author(tmp_path: Path, command: str) -> None:
    async with served(tmp_path, access()) as web:
        web.source.steering = orders = Orders()
        path = f"/api/v1/{command}?member=frodo&pool=web&reason=new%20kernel&for_s=60&factor=0.5&to=up&force=true"
        assert await post(web, path, HttpCredentials("sam", "potatoes")) == (200, {"members": ["frodo.hobbit"]})
        fields = {"member": "frodo", "pool": "web", "reason": "new kernel", "to": "up"}
        numbers = {"for_s": 60.0, "factor": 0.5, "force": True}
        assert orders.received == [({"command": command, **fields, **numbers}, "sam (web, 127.0.0.1)")]


@pytest.mark.parametrize(
    ("credentials", "header", "by"),
    [
        (SAM, SAM, "token 1"),
        (SAM, HttpCredentials("sam", "potatoes"), "sam"),
        (SAM, HttpCredentials("root", "reader"), "token 1"),  # the name is not checked, so it is not believed
        (TWO, HttpCredentials(tokens=("steerer",)), "steer token 2"),
    ],
)
async def test_authors(tmp_path: Path, credentials: HttpCredentials, header: HttpCredentials, by: str) -> None:
    async with served(tmp_path, access(credentials)) as web:
        web.source.steering = orders = Orders()
        assert (await post(web, DRAIN, header))[0] == 200
        assert orders.received[0][1] == f"{by} (web, 127.0.0.1)"


@pytest.mark.parametrize(
    ("credentials", "sent", "status"),
    [
        (SAM, None, 401),
        (SAM, HttpCredentials("sam", "wrong"), 401),
        (TWO, SAM, 403),
        (TWO, HttpCredentials("sam", "potatoes"), 403),
        (TWO, HttpCredentials(tokens=("nothing",)), 401),
        (HttpCredentials(steer_tokens=("steerer",)), None, 401),
        (HttpCredentials(steer_tokens=("steerer",)), HttpCredentials(tokens=("x",)), 401),
    ],
)
async def test_without_the_right_credentials_nothing_happens(
    tmp_path: Path,
    credentials: HttpCredentials,
    sent: HttpCredentials | None,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access_control, "DELAY", 0.01)
    async with served(tmp_path, access(credentials)) as web:
        web.source.steering = orders = Orders()
        headers = {HEADER: "1", **({"Authorization": sent.header()} if sent else {})}
        async with web.session.post(web.url(DRAIN), headers=headers) as response:
            assert response.status == status
            assert "Basic" not in response.headers.get("WWW-Authenticate", ""), "the browser must not prompt"
        assert orders.received == []


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({HEADER: ""}, "must have the header"),
        ({"Sec_Fetch_Site": "cross-site"}, "another site made the browser send this request"),
        ({"Sec_Fetch_Site": "same-site"}, "another site made the browser send this request"),
        ({"Origin": "https://evil.example"}, "comes from another site: 'https://evil.example'"),
        ({"Origin": "null"}, "comes from another site"),
        ({"Origin": "http://127.0.0.1:1"}, "comes from another site"),
        ({"Origin": "http://["}, "comes from another site"),
    ],
)
async def test_other_sites_cannot_steer(tmp_path: Path, headers: dict[str, str], why: str) -> None:
    rules = access()
    async with served(tmp_path, rules) as web:
        web.source.steering = orders = Orders()
        status, document = await post(web, DRAIN, SAM, **headers)
        assert status == 403
        assert why in document["error"]
        assert orders.received == []
        assert rules.refused["steering"] == 1


async def test_the_page_itself_can_steer_but_grants_other_sites_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, access()) as web:
        web.source.steering = orders = Orders()
        own = {"Origin": f"http://{web.server.address}", "Sec_Fetch_Site": "same-origin"}
        assert (await post(web, DRAIN, SAM, **own))[0] == 200
        assert len(orders.received) == 1
        asked = {
            "Origin": "https://evil.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": f"authorization,{HEADER}",
            "Authorization": SAM.header(),
        }
        async with web.session.options(web.url(DRAIN), headers=asked) as response:
            assert response.status == 405
            assert not [name for name in response.headers if name.lower().startswith("access-control")]


@given(st.text(max_size=30) | st.text("[]:/.@a1", max_size=12), st.text(max_size=30))
def test_an_origin_is_accepted_only_if_it_names_the_host(origin: str, host: str) -> None:
    accepted = refusal({HEADER: "1", "Origin": origin}, host) == ""
    assert not accepted or host == "" or host.lower() in origin.lower()


async def test_steering_is_off_by_default(tmp_path: Path) -> None:
    async with served(tmp_path, access(steer=False)) as web:
        web.source.steering = orders = Orders()
        status, document = await post(web, DRAIN)
        assert status == 403
        assert document["error"] == (
            "steering over HTTP is off; use the command 'lbdns drain', or set [web] steer = true"
        )
        assert orders.received == []


async def test_a_program_without_overrides(tmp_path: Path) -> None:
    async with served(tmp_path, access()) as web:
        assert (await post(web, DRAIN))[0] == 404


@pytest.mark.parametrize(
    ("error", "status", "document"),
    [
        (LbdnsError("weight: no"), 400, {"error": "weight: no"}),
        (UnknownNameError("member: no"), 404, {"error": "member: no"}),
        (LastMemberError("the last"), 409, {"error": "the last; to proceed, add force=true", "force": True}),
    ],
)
async def test_errors(tmp_path: Path, error: LbdnsError, status: int, document: dict[str, Any]) -> None:
    async with served(tmp_path, access()) as web:
        web.source.steering = Orders(error)
        assert await post(web, DRAIN) == (status, document)


async def test_parameters_that_occur_twice_and_bodies_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path, access()) as web:
        web.source.steering = orders = Orders()
        status, document = await post(web, f"{DRAIN}&member=bilbo")
        assert (status, document["error"]) == (400, "member: the parameter occurs twice")
        headers = {HEADER: "1", "Authorization": SAM.header()}
        async with web.session.post(web.url(DRAIN), headers=headers, data=b'{"member": "frodo"}') as response:
            assert response.status == 400
            assert "without a body" in (await response.json())["error"]
        assert orders.received == []


async def test_the_path_alone_states_the_command(tmp_path: Path) -> None:
    async with served(tmp_path, access()) as web:
        web.source.steering = orders = Orders()
        for command in ("drain", "reload", "nonsense"):
            status, document = await post(web, f"/api/v1/undrain?member=frodo&command={command}")
            assert (status, document["error"]) == (
                400,
                "command: omit this parameter, because the path already contains the command",
            )
        assert orders.received == []


@pytest.mark.parametrize(
    ("credentials", "files"), [(SAM, "[web] password_file and token_file"), (TWO, "[web] steer_token_file")]
)
async def test_who_sends_a_wrong_token_learns_where_the_right_ones_are(
    tmp_path: Path, credentials: HttpCredentials, files: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_control, "DELAY", 0.01)
    async with served(tmp_path, access(credentials)) as web:
        status, document = await post(web, DRAIN, HttpCredentials(tokens=("wrong",)))
        assert status == 401
        assert document["error"].endswith(f"the valid credentials are in {files}")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_only_post_steers(tmp_path: Path, method: str) -> None:
    async with served(tmp_path, access()) as web:
        web.source.steering = orders = Orders()
        headers = {HEADER: "1", "Authorization": SAM.header()}
        with_method = aiohttp.ClientSession.request
        async with with_method(web.session, method, web.url(DRAIN), headers=headers) as response:
            assert response.status == 405
            assert (await response.json())[
                "error"
            ] == f"{method} is not allowed for {DRAIN.partition('?')[0]}: use POST"
        assert orders.received == []
