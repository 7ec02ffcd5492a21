"""Makes the script that a new server runs at its first boot, from a template with placeholders such as {{name}}."""

from __future__ import annotations

import importlib.resources
import re
import shlex
from pathlib import Path
from typing import Final

from lbdns.config.value_readers import HOST_NAME
from lbdns.text.suggestions import suggestion
from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.providers.agent_settings import AgentSettings
from lbdns_tools.scaler.providers.provider import ProviderError

MAX_LENGTH: Final = 16_384  # bytes: the limit of EC2; Nova's is higher
#: Placeholder -> meaning. Each stands for shell words that are quoted if necessary, so it must not be inside quotes
PLACEHOLDERS: Final = {
    "name": "the server's name",
    "farm": "the farm's name",
    "pool": "the pool that the server joins",
    "key_line": "the line for the agent's key file, with a key that is valid only for this name",
    "agent_options": "all options of lbdns-agent except --key-file",
}
_PLACEHOLDER: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}")


class UserDataTemplate:
    """A template, and the settings of the agents that its scripts start."""

    def __init__(self, text: str, agent: AgentSettings, farm: str) -> None:
        self._text, self._agent, self._farm = text, agent, farm

    def __call__(self, name: str) -> str:
        """Return the script for the server ``name``.

        Raises KeyFileError if the master key cannot be used, and ProviderError if the script is too long.
        """
        if not HOST_NAME.match(name):
            raise ProviderError(f"{name!r} is not a host name relative to the zone, such as web-1")
        agent = self._agent
        options = ["--name", name, *agent.options()]
        values = {
            "name": [name],
            "farm": [self._farm],
            "pool": [agent.pool],
            "key_line": [agent.key_line(name)] if "key_line" in _PLACEHOLDER.findall(self._text) else [],
            "agent_options": options,
        }
        script = _PLACEHOLDER.sub(lambda match: shlex.join(values[match[1]]), self._text)
        if (length := len(script.encode())) > MAX_LENGTH:
            raise ProviderError(f"the user data of {name} has {length} bytes; at most {MAX_LENGTH} are permitted")
        return script


def read_user_data(path: Path | None, agent: AgentSettings, farm: str) -> UserDataTemplate:
    """Return the template in ``path``, or the default template. Raises ConfigError."""
    if path is None:
        source = importlib.resources.files(__package__) / "user_data.sh"
        return UserDataTemplate(source.read_text("utf-8"), agent, farm)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the user data: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: the user data must be UTF-8 text") from None
    findings = template_findings(text, str(path))
    if "key_line" in _PLACEHOLDER.findall(text) and agent.key_file is None:
        findings.append(f"{path}: {{{{key_line}}}} requires [provider] key_file, the collector's key file")
    if findings:
        raise ConfigError(*findings)
    return UserDataTemplate(text, agent, farm)


def template_findings(text: str, where: str) -> list[str]:
    """Return an error ``FILE:LINE: ...`` for each unknown placeholder. Pure."""
    known = ", ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        for word in _PLACEHOLDER.findall(line):
            if word not in PLACEHOLDERS:
                near = suggestion(word, PLACEHOLDERS)
                findings.append(f"{where}:{number}: unknown placeholder {{{{{word}}}}}; known: {known}{near}")
    if not text.strip():
        findings.append(f"{where}: the file is empty; write a script, or remove user_data to use the default one")
    return findings
