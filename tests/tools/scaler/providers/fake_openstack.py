"""A fake OpenStack: Keystone with a catalogue, and the parts of Nova, Glance and Neutron that openstacksdk asks."""

from __future__ import annotations

import base64
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp import web

from tests.tools.scaler.providers.fake_cloud import FakeCloud

PASSWORD: Final = "secret"
PROJECT: Final = "p" * 32
SERVICES: Final = {"compute": "/compute/v2.1", "image": "/image", "network": "/network"}
IMAGE: Final = {"id": "image-1", "name": "debian-12", "status": "active"}
FLAVOR: Final[dict[str, Any]] = {"id": "flavor-1", "name": "small", "vcpus": 2, "ram": 2048, "disk": 20}
NETWORKS: Final = ({"id": "network-1", "name": "private"}, {"id": "network-2", "name": "storage"})
#: Task state -> the status that the next look shows
_AFTER: Final = {"powering-off": "SHUTOFF", "powering-on": "ACTIVE", "spawning": "ACTIVE", "deleting": "DELETED"}


def problem(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"code": status, "message": message}}, status=status)


class FakeOpenStack(FakeCloud):
    """A cloud whose servers take one step each time that they are listed."""

    def __init__(self, instances: int = 3, cores: int = -1) -> None:
        super().__init__()
        self.servers: dict[str, dict[str, Any]] = {}
        self.instances, self.cores = instances, cores
        self.failing: set[str] = set()  # names of servers that Nova cannot build
        self.holding = False  # whether servers take no steps
        self._numbers = itertools.count(1)
        self._tokens: set[str] = set()
        routes = {
            "GET /identity/v3": self._identity,
            "POST /identity/v3/auth/tokens": self._authenticate,
            "GET /compute/v2.1": self._compute,
            "GET /compute/v2.1/": self._compute,
            "GET /image": self._image_versions,
            "GET /network": self._network_versions,
            "GET /compute/v2.1/flavors/{id}": self._flavor,
            "GET /compute/v2.1/flavors/detail": self._flavors,
            "GET /compute/v2.1/flavors": self._flavors,
            "GET /image/v2/images/{id}": self._image,
            "GET /image/v2/images": self._images,
            "GET /network/v2.0/networks/{id}": self._network,
            "GET /network/v2.0/networks": self._list_networks,
            "GET /compute/v2.1/limits": self._limits,
            "GET /compute/v2.1/servers/detail": self._list,
            "POST /compute/v2.1/servers": self._create,
            "GET /compute/v2.1/servers/{id}": self._get,
            "DELETE /compute/v2.1/servers/{id}": self._delete,
            "POST /compute/v2.1/servers/{id}/action": self._act,
            "POST /compute/v2.1/servers/{id}/metadata": self._set_metadata,
        }
        for route, handler in routes.items():
            method, path = route.split()
            self.app.router.add_route(method, path, handler)

    def environment(self, password: str = PASSWORD) -> dict[str, str]:
        """Return the variables with which openstacksdk finds this cloud."""
        return {
            "OS_AUTH_URL": f"{self.url}/identity/v3",
            "OS_USERNAME": "scaler",
            "OS_PASSWORD": password,
            "OS_PROJECT_NAME": "farm",
            "OS_USER_DOMAIN_NAME": "Default",
            "OS_PROJECT_DOMAIN_NAME": "Default",
            "OS_REGION_NAME": "RegionOne",
            "OS_CLIENT_CONFIG_FILE": "/nonexistent/clouds.yaml",
        }

    async def _identity(self, request: web.Request) -> web.Response:
        links = [{"rel": "self", "href": f"{self.url}/identity/v3/"}]
        return web.json_response({"version": {"id": "v3.14", "status": "stable", "links": links}})

    async def _authenticate(self, request: web.Request) -> web.Response:
        identity = (await request.json())["auth"]["identity"]
        if identity["password"]["user"]["password"] != PASSWORD:
            return problem(401, "The request you have made requires authentication.")
        catalog = [
            {
                "type": kind,
                "name": kind,
                "id": kind,
                "endpoints": [
                    {"id": kind, "interface": "public", "region": "RegionOne", "region_id": "RegionOne",
                     "url": f"{self.url}{path}"}
                ],
            }
            for kind, path in SERVICES.items()
        ]  # fmt: skip
        now = datetime.now(UTC)
        token = {
            "methods": ["password"],
            "user": {"id": "u", "name": "scaler", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": PROJECT, "name": "farm", "domain": {"id": "default", "name": "Default"}},
            "issued_at": now.isoformat().replace("+00:00", "Z"),
            "expires_at": (now + timedelta(hours=1)).isoformat().replace("+00:00", "Z"),
            "catalog": catalog,
            "roles": [{"id": "r", "name": "member"}],
        }
        subject = f"token-{next(self._numbers)}"
        self._tokens.add(subject)
        return web.json_response({"token": token}, status=201, headers={"X-Subject-Token": subject})

    def _check_token(self, request: web.Request) -> None:
        if request.headers.get("X-Auth-Token") not in self._tokens:
            raise web.HTTPUnauthorized(text="a valid token is required")

    async def _compute(self, request: web.Request) -> web.Response:
        links = [{"rel": "self", "href": f"{self.url}/compute/v2.1/"}]
        version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1", "links": links}
        return web.json_response({"version": version})

    async def _image_versions(self, request: web.Request) -> web.Response:
        links = [{"rel": "self", "href": f"{self.url}/image/v2/"}]
        return web.json_response({"versions": [{"id": "v2.16", "status": "CURRENT", "links": links}]}, status=300)

    async def _network_versions(self, request: web.Request) -> web.Response:
        links = [{"rel": "self", "href": f"{self.url}/network/v2.0/"}]
        return web.json_response({"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})

    async def _flavor(self, request: web.Request) -> web.Response:
        self._check_token(request)
        found = request.match_info["id"] == FLAVOR["id"]
        return web.json_response({"flavor": FLAVOR}) if found else problem(404, "Flavor could not be found.")

    async def _flavors(self, request: web.Request) -> web.Response:
        self._check_token(request)
        return web.json_response({"flavors": [FLAVOR]})

    async def _image(self, request: web.Request) -> web.Response:
        self._check_token(request)
        found = request.match_info["id"] == IMAGE["id"]
        return web.json_response(IMAGE) if found else problem(404, "No image found.")

    async def _images(self, request: web.Request) -> web.Response:
        self._check_token(request)
        found = request.query.get("name", IMAGE["name"]) == IMAGE["name"]
        return web.json_response({"images": [IMAGE] if found else [], "schema": "/v2/schemas/images"})

    async def _network(self, request: web.Request) -> web.Response:
        self._check_token(request)
        for network in NETWORKS:
            if network["id"] == request.match_info["id"]:
                return web.json_response({"network": network})
        return problem(404, "Network could not be found.")

    async def _list_networks(self, request: web.Request) -> web.Response:
        self._check_token(request)
        name = request.query.get("name")
        return web.json_response({"networks": [entry for entry in NETWORKS if name in (None, entry["name"])]})

    async def _limits(self, request: web.Request) -> web.Response:
        self._check_token(request)
        used = len(self.servers)
        absolute = {
            "maxTotalInstances": self.instances, "totalInstancesUsed": used,
            "maxTotalCores": self.cores, "totalCoresUsed": used * FLAVOR["vcpus"],
            "maxTotalRAMSize": -1, "totalRAMUsed": used * FLAVOR["ram"],
        }  # fmt: skip
        return web.json_response({"limits": {"rate": [], "absolute": absolute}})

    async def _list(self, request: web.Request) -> web.Response:
        """Return the servers in pages of two, and let each of them take one step at the first page."""
        self._check_token(request)
        marker = request.query.get("marker")
        if marker is None and not self.holding:
            for server in list(self.servers.values()):
                self._step(server)
        ids = list(self.servers)
        start = ids.index(marker) + 1 if marker else 0
        page = ids[start : start + 2]
        body: dict[str, Any] = {"servers": [self.servers[key] for key in page]}
        if start + 2 < len(ids):
            href = f"{self.url}/compute/v2.1/servers/detail?marker={page[-1]}"
            body["servers_links"] = [{"rel": "next", "href": href}]
        return web.json_response(body)

    def _step(self, server: dict[str, Any]) -> None:
        status = _AFTER.get(server["OS-EXT-STS:task_state"])
        if status is None:
            return
        server["OS-EXT-STS:task_state"] = None
        if status == "DELETED":
            del self.servers[server["id"]]
        elif server["name"] in self.failing:
            server.update(status="ERROR", fault={"code": 500, "message": "No valid host was found."})
        else:
            server["status"] = status
            server["OS-SRV-USG:launched_at"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000")

    def add(self, name: str, metadata: dict[str, str], status: str = "ACTIVE", **more: Any) -> str:
        """Add a server, and return its ID."""
        number = next(self._numbers)
        address = {"version": 4, "OS-EXT-IPS:type": "fixed", "addr": f"10.0.0.{number}"}
        address6 = {"version": 6, "OS-EXT-IPS:type": "fixed", "addr": f"2001:db8::{number}"}
        floating = {"version": 4, "OS-EXT-IPS:type": "floating", "addr": f"192.0.2.{number}"}
        self.servers[f"server-{number}"] = {
            "id": f"server-{number}", "name": name, "status": status, "metadata": metadata,
            "created": f"2026-01-01T00:00:{number % 60:02}Z", "OS-EXT-STS:task_state": None,
            "addresses": {"private": [address6, floating, address]},
            **more,
        }  # fmt: skip
        return f"server-{number}"

    async def _create(self, request: web.Request) -> web.Response:
        self._check_token(request)
        wanted = (await request.json())["server"]
        if len(self.servers) >= self.instances >= 0:
            used = len(self.servers)
            text = f"Quota exceeded for instances: Requested 1, but already used {used} of {self.instances} instances"
            return problem(403, text)
        assert wanted["imageRef"] == IMAGE["id"]
        assert wanted["flavorRef"] == FLAVOR["id"]
        extra = {key: value for key, value in wanted.items() if key not in ("name", "metadata", "user_data")}
        key = self.add(wanted["name"], wanted["metadata"], "BUILD", asked=extra)
        server = self.servers[key]
        server["OS-EXT-STS:task_state"] = "spawning"
        server["script"] = base64.b64decode(wanted["user_data"], validate=True).decode()
        return web.json_response({"server": {"id": key, "links": [], "adminPass": "x"}}, status=202)

    def _server(self, request: web.Request) -> dict[str, Any]:
        self._check_token(request)
        server = self.servers.get(request.match_info["id"])
        if server is None:
            text = '{"itemNotFound": {"code": 404, "message": "Instance could not be found."}}'
            raise web.HTTPNotFound(text=text, content_type="application/json")
        return server

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response({"server": self._server(request)})

    async def _delete(self, request: web.Request) -> web.Response:
        self._server(request)["OS-EXT-STS:task_state"] = "deleting"
        return web.Response(status=204)

    async def _act(self, request: web.Request) -> web.Response:
        server, action = self._server(request), next(iter(await request.json()))
        before, task = {"os-start": ("SHUTOFF", "powering-on"), "os-stop": ("ACTIVE", "powering-off")}[action]
        if server["status"] not in (before, "ERROR") or server["OS-EXT-STS:task_state"]:
            text = f"Cannot '{action[3:]}' instance {server['id']} while it is in vm_state {server['status'].lower()}"
            return problem(409, text)
        server["OS-EXT-STS:task_state"] = task
        return web.Response(status=202)

    async def _set_metadata(self, request: web.Request) -> web.Response:
        server = self._server(request)
        server["metadata"] |= (await request.json())["metadata"]
        return web.json_response({"metadata": server["metadata"]})
