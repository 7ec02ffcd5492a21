"""Writes the script of bash that runs the command blocks of a page, and checks what the commands have printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.blocks import Block, Command, RunComment, all_blocks, commands_of, lines_of
from tests.docs.sandbox import Sandbox
from tests.docs.shapes import missing_lines

#: One shell runs all commands of a page, as a reader's shell does: variables, jobs and the folder remain
_BEGIN: Final = """\
set -eEm                          # -m: jobs have names and process groups, as at a prompt
cd "$SANDBOX/checkout"
exec 3>&1
out=/dev/null
trap 'echo "exit status $?: $BASH_COMMAND"' ERR
trap 'status=$?; tail -n 40 "$out" >&3; jobs=$(jobs -p); kill -KILL $jobs 2> /dev/null || true; exit $status' EXIT
[ ! -e "$SANDBOX/profile" ] || source "$SANDBOX/profile"

with_status() {                   # STATUS FILE: run a file whose commands must end with a status
    set +eE
    (trap - ERR EXIT; set -e; source "$2") > "$out" 2>&1
    local status=$?
    set -eE
    [ $status = "$1" ] || { echo "exit status $status, expected $1"; return 1; }
}

until_it_prints() {               # TEXT FILE: interrupt a file's command when it has printed a text
    (trap - ERR EXIT; source "$2") > "$out" 2>&1 &
    local job=$! end=$((SECONDS + 180))
    until grep -qF -- "$1" "$out"; do
        if ! kill -0 $job 2> /dev/null; then
            grep -qF -- "$1" "$out" || { echo "the command ended before it printed: $1"; return 1; }
            break
        fi
        [ $SECONDS -lt $end ] || { echo "the command has not printed within three minutes: $1"; return 1; }
        sleep 0.1
    done
    kill -INT -- -$job 2> /dev/null || true
    wait $job || [ $? = 130 ]     # 128 + SIGINT
}
"""
#: Output of a program that failed although the exit status does not show it, for example in a pipe
_BROKEN: Final = re.compile(r"^(Traceback|Usage:|Error:)|command not found", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A command in a file of its own, and the file with its output."""

    block: Block
    command: Command
    how: RunComment
    file: Path
    output: Path

    @property
    def lines(self) -> list[str]:
        file, output = shlex.quote(str(self.file)), shlex.quote(str(self.output))
        if self.how.until:
            run = f"until_it_prints {shlex.quote(self.how.until)} {file}"
        elif self.how.status:
            run = f"with_status {self.how.status} {file}"
        else:
            run = f'source {file} > "$out" 2>&1'
        return [f"echo {self.block.place}", f"out={output}", run]


def pages_with(setting: str) -> dict[str, list[Block]]:
    """Return, for each page, its blocks that name a setting."""
    found: dict[str, list[Block]] = {}
    for block in all_blocks():
        if block.run and block.run.setting == setting:
            found.setdefault(block.page, []).append(block)
    return found


def run_page(blocks: Sequence[Block], sandbox: Sandbox) -> list[str]:
    """Run the blocks of one page that name the sandbox's setting, and return what went wrong."""
    steps = list(_steps(blocks, sandbox.folder))
    status, log = sandbox.run("\n".join([_BEGIN, *(line for step in steps for line in step.lines), ""]))
    if status:
        return [f"exit status {status}:\n{log}"]
    broken = [step for step in steps if _BROKEN.search(step.output.read_text())]
    return [f"{step.block.place}: {step.command.text}{step.output.read_text()}" for step in broken] + [
        f"{step.block.place}: the output of {step.command.text.strip()!r} lacks {line!r}:\n{step.output.read_text()}"
        for step in steps
        for line in missing_lines(step.command.shown or "", step.output.read_text())
    ]


def _steps(blocks: Sequence[Block], folder: Path) -> list[Step]:
    found = []
    for block in blocks:
        how = block.run
        assert how is not None, block.place
        commands = [Command(line) for line in lines_of(block)] if how.until else commands_of(block)
        if how.before:
            found.append(_step(block, Command(how.before), RunComment(how.setting), "before", folder))
        found += [_step(block, command, how, str(number), folder) for number, command in enumerate(commands)]
    return found


def _step(block: Block, command: Command, how: RunComment, name: str, folder: Path) -> Step:
    """Write a command to a file, and return the step that runs it."""
    base = folder / "steps" / f"{block.page.replace('/', '-').removesuffix('.md')}-{block.line}-{name}"
    base.parent.mkdir(exist_ok=True)
    base.with_suffix(".sh").write_text(command.text)
    base.with_suffix(".out").touch()
    return Step(block, command, how, base.with_suffix(".sh"), base.with_suffix(".out"))
