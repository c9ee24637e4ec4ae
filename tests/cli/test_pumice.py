"""The ``pumice`` command: what is in it, and how it speaks."""

import json
import re
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import click
import pytest

from pumice.cli.main import ADAPTERS, COMMANDS, pumice
from tests.cli.commands import process
from tests.cli.commands import pumice as run_pumice

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "place",
    [command.place for command in (*COMMANDS.values(), *ADAPTERS.values())],
)
def test_every_command_is_where_it_is_said_to_be(place: str) -> None:
    module, _, attribute = place.partition(":")
    assert isinstance(getattr(import_module(module), attribute), click.Command)
    # The composition root takes its own commands and those that rooms offer, nothing deeper.
    assert module.startswith("pumice.cli.") or module.endswith(".commands")


def test_every_command_has_help_in_a_sentence() -> None:
    context = click.Context(pumice, info_name="pumice")
    for name in pumice.list_commands(context):
        command = pumice.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str()


def test_help_lists_the_commands() -> None:
    done = process("--help")
    assert done.code == 0
    listed = re.findall(r"^  (\w+) ", done.out.partition("Commands:")[2], flags=re.MULTILINE)
    assert listed[:5] == ["run", "core", "controllers", "job", "queue"]
    assert listed[-3:] == ["adapter", "help", "version"]


def test_the_help_command_shows_the_help_of_a_command(capsys: Capture) -> None:
    for words in ((), ("job",), ("job", "run"), ("adapter", "kubernetes")):
        shown = run_pumice(capsys, "help", *words)
        assert shown == run_pumice(capsys, *words, "--help")
    unknown = run_pumice(capsys, "help", "jbo")
    assert (unknown.code, unknown.out) == (2, "")
    assert "did you mean 'job'?" in unknown.err
    too_long = run_pumice(capsys, "help", "version", "more")
    assert too_long.err.startswith("pumice: 'pumice version' has no commands.")


def test_help_fits_a_terminal_and_imports_no_room() -> None:
    done = process("--help", COLUMNS="80")
    assert "..." not in done.out.partition("Commands:")[2]
    code = "import sys; from pumice.cli.main import run; run(['--help']); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert not {"grpc", "numpy", "yaml"} & set(loaded.splitlines()[-1].split())


def test_version(capsys: Capture) -> None:
    text = metadata.version("pumice")
    assert run_pumice(capsys, "version").out == f"pumice {text}\n"
    assert json.loads(run_pumice(capsys, "version", "--json").out) == {"version": text}
    assert run_pumice(capsys, "--version").out == f"pumice {text}\n"


def test_a_link_with_the_name_of_a_program_of_volcano_is_that_program(tmp_path: Path) -> None:
    def said(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        link = tmp_path / name
        link.symlink_to(Path(sys.executable).parent / "pumice")
        return subprocess.run(
            [link, *words], capture_output=True, text=True, timeout=100, check=False
        )

    lines = said("vcctl", "version").stdout.splitlines()
    assert lines == ["API Version: v1alpha1", f"Version: {metadata.version('pumice')} (pumice)"]
    refused = said("vsub", "-n")
    assert refused.returncode == 2
    assert refused.stderr == "pumice: Option '-n' requires an argument. See 'vsub --help'.\n"
    assert "-n, --name" in said("vjobs", "--help").stdout


def test_without_a_command_there_is_help(capsys: Capture) -> None:
    done = run_pumice(capsys)
    assert done.code == 2
    assert done.err.startswith("Usage: pumice")


def test_there_are_no_colours_where_nobody_looks(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text("{", encoding="utf-8")
    done = process("simulate", file, TERM="xterm-256color", COLORTERM="truecolor")
    assert done.code == 2
    assert "\x1b" not in done.out + done.err
