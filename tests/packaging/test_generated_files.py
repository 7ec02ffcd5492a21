"""Tests of manual pages and completions: they name every command and option, and the shells accept them."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from lbdns.cli import COMMANDS
from lbdns_packaging.command_descriptions import PROGRAMS, CommandDescription, describe_program
from lbdns_packaging.generated_files import stage_generated_files
from tests.needs import needs

EPOCH = 1_700_000_000
PAIRS = [(package, program) for package, programs in PROGRAMS.items() for program in programs]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stage")
    for package in PROGRAMS:
        stage_generated_files(package, folder, EPOCH, "1.2.3")
    return folder


def page(stage: Path, program: str) -> str:
    return gzip.decompress((stage / "usr/share/man/man1" / f"{program}.1.gz").read_bytes()).decode()


def completion(stage: Path, shell: str, program: str) -> Path:
    names = {
        "bash": f"bash-completion/completions/{program}",
        "zsh": f"zsh/vendor-completions/_{program}",
        "fish": f"fish/vendor_completions.d/{program}.fish",
    }
    return stage / "usr/share" / names[shell]


def options_of(command: CommandDescription) -> set[str]:
    return {name for option in command.options for name in option.names}.union(*map(options_of, command.subcommands))


def test_every_command_is_described() -> None:
    assert {child.word for child in describe_program("lbdns", "lbdns").subcommands} == set(COMMANDS)
    assert {child.word for child in describe_program("lbdns-agent", "lbdns-agent").subcommands} == {"record", "plot"}


@pytest.mark.parametrize(("package", "program"), PAIRS)
def test_every_option_is_in_every_file(stage: Path, package: str, program: str) -> None:
    options = options_of(describe_program(package, program))
    assert "--help" in options
    manual = page(stage, program).replace("\\-", "-")
    for option in options:
        assert f"\\fB{option}\\fR" in manual
        for shell in ("bash", "zsh"):
            assert option in completion(stage, shell, program).read_text()
        assert option.lstrip("-") in completion(stage, "fish", program).read_text()


def test_what_a_page_consists_of(stage: Path) -> None:
    lines = page(stage, "lbdns").splitlines()
    assert lines[0] == '.TH "LBDNS" 1 "2023-11-14" "lbdns 1.2.3" "User Commands"'
    sections = [line for line in lines if line.startswith(".SH")]
    assert sections == [
        f".SH {name}" for name in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS", "SEE ALSO")
    ]
    assert ".SS lbdns drain" in lines


@needs(programs=("groff",))
@pytest.mark.parametrize(("package", "program"), PAIRS)
def test_pages_are_valid(stage: Path, package: str, program: str) -> None:
    command = [
        "groff",
        "-man",
        "-Tutf8",
        "-wmac",
        "-wfont",
        "-wescape",
        "-wsyntax",
        "-wmissing",
        "-Wbreak",
        "-z",
    ]  # long words stay whole
    done = subprocess.run(command, input=page(stage, program), capture_output=True, text=True, check=True)
    assert done.stderr == ""


@needs(programs=("zsh", "fish"))
@pytest.mark.parametrize(("package", "program"), PAIRS)
def test_the_shells_can_read_the_completions(stage: Path, package: str, program: str) -> None:
    for shell in ("bash", "zsh", "fish"):
        subprocess.run([shell, "-n", str(completion(stage, shell, program))], check=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lbdns dr", ["drain"]),
        ("lbdns --ver", ["--version"]),
        ("lbdns status --t", ["--top"]),
        ("lbdns status -c x --js", ["--json"]),
        ("lbdns-agent --onc", ["--once"]),
        ("lbdns-agent record --devi", ["--devices"]),
    ],
)
def test_bash_completes(stage: Path, line: str, expected: list[str]) -> None:
    words = line.split(" ")
    script = (
        f"source {completion(stage, 'bash', words[0])}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        f"_{words[0].replace('-', '_')}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


def test_a_name_of_a_file_is_completed(stage: Path, tmp_path: Path) -> None:
    (tmp_path / "a file.toml").touch()
    script = (
        f"cd {tmp_path}; source {completion(stage, 'bash', 'lbdns')}; COMP_WORDS=(lbdns check -c a); COMP_CWORD=3; "
        "_lbdns; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "a file.toml\n"


@needs(programs=("fish",))
def test_fish_completes(stage: Path) -> None:
    script = f"source {completion(stage, 'fish', 'lbdns')}; complete -C 'lbdns dr'; complete -C 'lbdns status --to'"
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["drain", "--top"]
