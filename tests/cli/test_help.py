"""The help of every command: complete, in plain text, and readable at 80 and 60 columns."""

from collections.abc import Iterator

import click
import pytest

from pumice.cli.main import pumice


def commands(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands((*path, name), found)


def found(path: tuple[str, ...]) -> click.Command:
    command: click.Command = pumice
    for name in path:
        assert isinstance(command, click.Group)
        below = command.get_command(click.Context(command), name)
        assert below is not None
        command = below
    return command


COMMANDS = list(commands((), pumice))


def help_text(path: tuple[str, ...], width: int) -> str:
    context = click.Context(
        pumice, info_name="pumice", terminal_width=width, max_content_width=width
    )
    for name in path:
        command = found((*path[: path.index(name)], name))
        context = click.Context(
            command,
            info_name=name,
            parent=context,
            terminal_width=width,
            max_content_width=width,
        )
    return context.command.get_help(context)


def test_all_commands_are_found() -> None:
    assert len(COMMANDS) > 40
    assert ("show", "queues") in COMMANDS
    assert ("adapter", "simulated") in COMMANDS


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fits_and_has_no_odd_characters(path: tuple[str, ...]) -> None:
    for width in (80, 60):
        text = help_text(path, width)
        assert "\\b" not in text
        assert "\b" not in text
        # An option's own words cannot be broken.
        wide = [line for line in text.splitlines() if len(line) > width]
        assert not [line for line in wide if not line.lstrip().startswith("-")]
    listed = help_text(path, 80).partition("Commands:")[2]
    assert "..." not in listed


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_every_option_says_what_it_is(path: tuple[str, ...]) -> None:
    command = found(path)
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, parameter.name
            assert parameter.help.endswith((".", "]")), parameter.help


def test_the_help_of_completion_has_a_line_for_each_shell() -> None:
    lines = [line.strip() for line in help_text(("completion",), 80).splitlines()]
    assert "bash:  source <(pumice completion bash)" in lines
    assert "fish:  pumice completion fish | source" in lines
