"""Tests of the provider ``command``: exit statuses, time-outs, output, and the files and words that commands get."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lbdns_tools.scaler.providers import command_provider
from lbdns_tools.scaler.providers.command_provider import CommandConfig, CommandProvider
from lbdns_tools.scaler.providers.provider import MachineStatus, ProviderError, QuotaError
from tests.end_to_end.process import alive, eventually

SH = ("/bin/sh", "-c")
ONE = ("echo", '{"name": "web-1", "status": "running"}')


def provider(timeout: float = 30.0, quota: int = 0, **commands: tuple[str, ...]) -> CommandProvider:
    """Return a provider whose other commands do nothing."""
    every = {"list": ("true",), "create": ("true",), "delete": ("true",), **commands}
    return CommandProvider(CommandConfig(**every, timeout=timeout, quota=quota), "farm-1")


FAILURES = [
    ("echo 'no such flavour:  xl' >&2; exit 1", "list: /bin/sh failed with exit status 1: no such flavour: xl"),
    ("exit 2", "list: /bin/sh failed with exit status 2: it printed no error message"),
    ("kill -TERM $$", "list: /bin/sh was killed by signal 15: it printed no error message"),
    (r"printf 'a\nb\033[1m\377' >&2; exit 1", "exit status 1: a b?[1m\N{REPLACEMENT CHARACTER}"),
    ("echo nonsense", "list: line 1 is not valid JSON: "),
]


@pytest.mark.parametrize(("script", "message"), FAILURES)
async def test_failures(script: str, message: str) -> None:
    with pytest.raises(ProviderError) as error:
        await provider(list=(*SH, script)).machines()
    assert message in str(error.value)
    assert not isinstance(error.value, QuotaError)


async def test_exit_status_3_is_a_quota_error() -> None:
    with pytest.raises(QuotaError, match="create: /bin/sh failed with exit status 3: none left"):
        await provider(create=(*SH, "echo none left >&2; exit 3")).create("web-1", "")


async def test_a_long_message_is_shortened_to_its_end() -> None:
    script = "yes first | head -n 100000 >&2; echo the last line >&2; exit 1"
    with pytest.raises(ProviderError) as error:
        await provider(list=(*SH, script)).machines()
    assert str(error.value).endswith("first the last line")
    assert len(str(error.value)) < 600


async def test_a_program_that_does_not_exist() -> None:
    with pytest.raises(ProviderError, match="list: cannot run /no/such/program: No such file or directory"):
        await provider(list=("/no/such/program",)).machines()


async def test_a_null_byte_in_a_word() -> None:
    with pytest.raises(ProviderError, match="cannot run true: embedded null byte"):
        await provider(list=("true", "\0")).machines()


async def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 3600 & echo $! $$ > {pids}; wait"
    began = time.monotonic()
    while not pids.exists() or not pids.read_text():  # on a busy machine, the shell may be killed before it has begun
        with pytest.raises(ProviderError, match=r"list: /bin/sh did not end within 0\.5 s"):
            await provider(timeout=0.5, list=(*SH, script)).machines()
        assert time.monotonic() - began < 60
    both = {int(word) for word in pids.read_text().split()}
    assert len(both) == 2
    await asyncio.to_thread(eventually, lambda: not alive(both), "both processes have ended")


async def test_a_cancelled_request_leaves_no_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    task = asyncio.create_task(provider(list=(*SH, f"echo $$ > {pid}; exec sleep 3600")).machines())
    await asyncio.to_thread(eventually, lambda: pid.exists() and pid.read_text(), "the command runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(eventually, lambda: not alive({int(pid.read_text())}), "the command has ended")


async def test_a_background_process_that_keeps_the_output_open(tmp_path: Path) -> None:
    script = f"sleep 3600 & echo $! > {tmp_path}/pid"
    with pytest.raises(ProviderError, match="has ended, but a background process kept its output open for"):
        await provider(timeout=5.0, list=(*SH, script)).machines()
    os.kill(int((tmp_path / "pid").read_text()), 9)


async def test_a_background_process_with_redirected_output_continues(tmp_path: Path) -> None:
    script = f"sleep 3600 > /dev/null 2>&1 & echo $! > {tmp_path}/pid"
    assert await provider(list=(*SH, script)).machines() == ()
    pid = int((tmp_path / "pid").read_text())
    assert alive({pid})
    os.kill(pid, 9)


async def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_provider, "MAX_OUTPUT", 1000)
    line = '{"name": "web-1", "status": "running"}'
    assert len(await provider(list=(*SH, f"echo '{line}'; yes '' | head -n {999 - len(line)}")).machines()) == 1
    with pytest.raises(ProviderError, match="list: the command printed more than 1000 bytes"):
        await provider(list=(*SH, "yes | head -c 10000000")).machines()


async def test_words_are_never_interpreted_by_a_shell(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write = "import json, sys; open(sys.argv[1], 'w').write(json.dumps(sys.argv[2:]))"
    words = ("{name}; $(reboot)", "{farm}/{name}", "{", "{}}".replace("{}", "x"), "")
    create = (sys.executable, "-c", write, str(log), *words)
    await provider(create=create).create("web-1", "")
    assert json.loads(log.read_text()) == ["web-1; $(reboot)", "farm-1/web-1", "{", "x}", ""]


async def test_the_user_data_file_is_private_and_temporary(tmp_path: Path) -> None:
    path = tmp_path / "path"
    script = f'cp -p "$0" {tmp_path}/copy; ln -s "$0" {path}'
    await provider(create=(*SH, script, "{user_data_file}")).create("web-1", "#!/bin/sh\nècho\n")
    copy = tmp_path / "copy"
    assert copy.read_text("utf-8") == "#!/bin/sh\nècho\n"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert path.is_symlink()
    assert not path.exists()


async def test_a_machine_that_exists_is_not_created_again() -> None:
    await provider(list=ONE, create=("false",)).create("web-1", "")
    with pytest.raises(ProviderError, match="create: false failed"):
        await provider(list=ONE, create=("false",)).create("web-2", "")


async def test_a_machine_that_does_not_exist_is_not_deleted() -> None:
    await provider(list=ONE, delete=("false",)).delete("web-2")
    with pytest.raises(ProviderError, match="delete: false failed"):
        await provider(list=ONE, delete=("false",)).delete("web-1")


async def test_without_commands_to_start_and_stop() -> None:
    for request, what in ((provider().start("web-1"), "start"), (provider().stop("web-1"), "stop")):
        with pytest.raises(ProviderError, match=rf"cannot {what} web-1: \[provider\] {what} is not set"):
            await request


@pytest.mark.parametrize(
    ("status", "starts", "stops"),
    [("running", False, True), ("building", False, True), ("stopped", True, False), ("stopping", True, False)],
)
async def test_only_changes_are_requested(status: str, starts: bool, stops: bool) -> None:
    found = provider(list=("echo", json.dumps({"name": "web-1", "status": status})), start=("false",), stop=("false",))
    for request, fails in ((found.start, starts), (found.stop, stops)):
        if fails:
            with pytest.raises(ProviderError, match="false failed with exit status 1"):
                await request("web-1")
        else:
            await request("web-1")
        with pytest.raises(ProviderError, match="web-2: the command 'list' does not print this server"):
            await request("web-2")


async def test_the_configured_quota() -> None:
    assert await provider().quota() is None
    limited = provider(quota=1, list=ONE, create=("false",))
    assert await limited.quota() == 1
    with pytest.raises(QuotaError, match="the quota of 1 server is used up"):
        await limited.create("web-2", "")
    assert [machine.status for machine in await limited.machines()] == [MachineStatus.RUNNING]


async def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ProviderError, match="create: cannot write the user data of web-1: No such file or directory"):
        await provider().create("web-1", "#!/bin/sh\n")
