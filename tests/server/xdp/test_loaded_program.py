"""Checks that loading explains its failures, and leaves nothing behind."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.server.xdp import bpf_calls, loaded_program
from lbdns.server.xdp.kernel_errors import KernelError
from tests.needs import needs
from tests.server.xdp.kernel_of_responder import kernel

needs_kernel = needs(xdp=True, root=True)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@needs_kernel
def test_close_leaves_no_descriptor() -> None:
    before = descriptors()
    with kernel() as answers:
        assert descriptors() > before
        answers.totals()
    assert descriptors() == before
    answers.close()


@needs_kernel
def test_descriptors_are_not_inherited() -> None:
    with kernel() as answers:
        for fd in (answers.program.fd, *answers.program._maps.values()):
            assert not os.get_inheritable(fd)


@needs_kernel
def test_the_error_has_the_log_of_the_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    program = loaded_program.program_object()
    unsafe = bytes.fromhex("611000000000000061000000000000009500000000000000")  # reads without a check
    broken = replace(program, instructions=unsafe, references={})
    monkeypatch.setattr(loaded_program, "program_object", lambda: broken)
    before = descriptors()
    with pytest.raises(KernelError, match="cannot load the XDP program: Permission denied") as caught, kernel():
        pass
    assert "processed" in caught.value.log
    assert descriptors() == before


def test_a_program_that_was_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loaded_program, "OBJECT", tmp_path / "answers.o")
    with pytest.raises(KernelError, match=r"the XDP program was not built: .*answers\.o is missing"):
        loaded_program.program_object.__wrapped__()
    (tmp_path / "answers.o").mkdir()
    with pytest.raises(KernelError, match="cannot read the XDP program"):
        loaded_program.program_object.__wrapped__()


@needs(xdp=True)
@pytest.mark.parametrize(
    ("code", "text"),
    [(errno.EPERM, "this needs the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"), (errno.ENOSYS, "Linux 5.10")],
)
def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, code: int, text: str) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(bpf_calls, "create_map", refuse)
    with pytest.raises(KernelError, match=f"cannot create the maps of the XDP program: .*{text}"), kernel():
        pass
