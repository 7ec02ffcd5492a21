"""A fake EC2: the actions of the Query API that the provider uses, with signed requests and XML responses."""

from __future__ import annotations

import base64
import itertools
from datetime import UTC, datetime
from typing import Any, Final
from xml.sax.saxutils import escape

from aiohttp import web

from tests.tools.scaler.providers.fake_cloud import FakeCloud, Fault

ACCESS_KEY: Final = "AKIDEXAMPLE"
_NAMESPACE: Final = "http://ec2.amazonaws.com/doc/2016-11-15/"
_CODES: Final = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
_NEXT: Final = {"pending": "running", "stopping": "stopped", "shutting-down": "terminated"}
_PAGE: Final = 2  # instances


def error_xml(code: str, message: str) -> str:
    inner = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    return f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>r</RequestID></Response>"


def ec2_error(match: str, code: str, message: str = "made up", status: int = 400, times: int = 1) -> Fault:
    """Return a fault that answers with an error of EC2."""
    return Fault(match, "error", times, status, error_xml(code, message), "text/xml")


class FakeEc2(FakeCloud):
    """A cloud whose instances take one step each time that they are listed."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__()
        self.instances: dict[str, dict[str, Any]] = {}
        self.limit = limit
        self.failing: set[str] = set()  # names of instances that end while EC2 builds them
        self.holding = False  # whether instances take no steps
        self.hidden: set[str] = set()  # IDs that lists do not contain yet
        self._tokens: dict[str, tuple[str, tuple[str, ...]]] = {}  # client token -> ID, and the request
        self._numbers = itertools.count(1)
        self.app.router.add_post("/", self._call)

    def environment(self, access_key: str = ACCESS_KEY) -> dict[str, str]:
        """Return the variables with which boto3 finds its credentials."""
        return {
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/nonexistent/config",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
        }

    async def label(self, request: web.Request) -> str:
        return str((await request.post())["Action"])

    async def _call(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        authorization = request.headers.get("Authorization", "")
        if f"Credential={ACCESS_KEY}/" not in authorization or "Signature=" not in authorization:
            return self._error(401, "AuthFailure", "AWS was not able to validate the provided access credentials")
        match form["Action"]:
            case "DescribeInstances":
                return self._describe(form)
            case "RunInstances":
                return self._run(form)
            case "StartInstances":
                return self._change(form, "stopped", "pending")
            case "StopInstances":
                return self._change(form, "running", "stopping")
            case "TerminateInstances":
                return self._change(form, "", "shutting-down")
        return self._error(400, "InvalidAction", f"the action {form['Action']} is not valid")

    def _error(self, status: int, code: str, message: str) -> web.Response:
        return web.Response(status=status, text=error_xml(code, message), content_type="text/xml")

    def _answer(self, action: str, body: str) -> web.Response:
        text = f'<{action}Response xmlns="{_NAMESPACE}"><requestId>r</requestId>{body}</{action}Response>'
        return web.Response(text=text, content_type="text/xml")

    def _describe(self, form: dict[str, str]) -> web.Response:
        first = int(form.get("NextToken", "0"))
        if not first and not self.holding:
            for instance in self.instances.values():
                self._step(instance)
        key = form["Filter.1.Name"].removeprefix("tag:")
        found = [
            instance
            for instance in self.instances.values()
            if instance["tags"].get(key) == form["Filter.1.Value.1"] and instance["id"] not in self.hidden
        ]
        items = "".join(
            f"<item><reservationId>r-1</reservationId><instancesSet>{self._xml(one)}</instancesSet></item>"
            for one in found[first : first + _PAGE]
        )
        more = f"<nextToken>{first + _PAGE}</nextToken>" if first + _PAGE < len(found) else ""
        return self._answer("DescribeInstances", f"<reservationSet>{items}</reservationSet>{more}")

    def _step(self, instance: dict[str, Any]) -> None:
        if instance["state"] == "pending" and instance["tags"].get("Name") in self.failing:
            instance.update(state="terminated", reason=("Server.InternalError", "Internal error on launch"))
        else:
            instance["state"] = _NEXT.get(instance["state"], instance["state"])

    def add(self, tags: dict[str, str], state: str = "running", **more: Any) -> str:
        """Add an instance, and return its ID."""
        number = next(self._numbers)
        key = f"i-{number:08x}"
        self.instances[key] = {
            "id": key, "number": number, "state": state, "tags": tags, "launched": datetime.now(UTC),
            "reason": None, **more,
        }  # fmt: skip
        return key

    def _run(self, form: dict[str, str]) -> web.Response:
        token = form["ClientToken"]
        request = tuple(f"{key}={value}" for key, value in sorted(form.items()))
        if token in self._tokens:
            key, before = self._tokens[token]
            if before != request:
                return self._error(400, "IdempotentParameterMismatch", "Arguments on this idempotent request differ")
            if self.instances[key]["state"] == "terminated":
                return self._error(400, "IdempotentInstanceTerminated", "the instance has been terminated")
        else:
            if sum(instance["state"] != "terminated" for instance in self.instances.values()) >= self.limit:
                return self._error(400, "VcpuLimitExceeded", "You have requested more vCPU capacity than your limit")
            tags = {
                form[f"TagSpecification.1.Tag.{number}.Key"]: form[f"TagSpecification.1.Tag.{number}.Value"]
                for number in (1, 2)
            }
            script = base64.b64decode(form["UserData"], validate=True).decode()
            key = self.add(tags, "pending", script=script, asked=form)
            self._tokens[token] = key, request
        body = f"<reservationId>r-1</reservationId><instancesSet>{self._xml(self.instances[key])}</instancesSet>"
        return self._answer("RunInstances", body)

    def _change(self, form: dict[str, str], before: str, after: str) -> web.Response:
        instance = self.instances.get(form["InstanceId.1"])
        if instance is None or instance["id"] in self.hidden:
            return self._error(
                400, "InvalidInstanceID.NotFound", f"The instance ID '{form['InstanceId.1']}' is unknown"
            )
        if before and instance["state"] not in (before, after):
            text = f"The instance is not in a state from which it can be changed: {instance['state']}"
            return self._error(400, "IncorrectInstanceState", text)
        instance.update(state=after, launched=datetime.now(UTC) if after == "pending" else instance["launched"])
        if after == "shutting-down":
            instance["reason"] = ("Client.UserInitiatedShutdown", "User initiated shutdown")
        return self._answer(form["Action"], "<instancesSet></instancesSet>")

    def _xml(self, instance: dict[str, Any]) -> str:
        number, state, reason = instance["number"], instance["state"], instance["reason"]
        tags = "".join(
            f"<item><key>{escape(key)}</key><value>{escape(value)}</value></item>"
            for key, value in instance["tags"].items()
        )
        why = f"<stateReason><code>{reason[0]}</code><message>{reason[1]}</message></stateReason>" if reason else ""
        ipv6 = f"<ipv6AddressesSet><item><ipv6Address>2001:db8::{number}</ipv6Address></item></ipv6AddressesSet>"
        return (
            f"<item><instanceId>{instance['id']}</instanceId>"
            f"<instanceState><code>{_CODES[state]}</code><name>{state}</name></instanceState>"
            f"<privateIpAddress>10.0.0.{number}</privateIpAddress><ipAddress>192.0.2.{number}</ipAddress>"
            f"<launchTime>{instance['launched'].strftime('%Y-%m-%dT%H:%M:%S.000Z')}</launchTime>"
            f"<networkInterfaceSet><item>{ipv6}</item></networkInterfaceSet>"
            f"<tagSet>{tags}</tagSet>{why}</item>"
        )
