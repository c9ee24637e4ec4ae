"""Groups of commands: each is imported when it is called, and a wrong word gets the nearest one."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module, util
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class Room(NamedTuple):
    """Where a command is, and what it does in a few words: help must not import them all."""

    place: str
    does: str


class WordGroup(click.Group):
    """A group that answers a word it does not know with the nearest one, or with all there are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        known = self.list_commands(ctx)
        if word not in known and not word.startswith("-"):
            raise click.UsageError(f"unknown command {word!r}; {self.hint(word, known)}", ctx)
        return super().resolve_command(ctx, args)

    def hint(self, word: str, known: list[str]) -> str:
        near = get_close_matches(word, known, n=1, cutoff=0.6)
        return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"


class Composed(WordGroup):
    """A group of commands that are named where they are, and imported when they are called."""

    def __init__(self, *args: Any, rooms: Mapping[str, Room] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rooms = rooms or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        there = [name for name, room in self._rooms.items() if exists(room.place)]
        return [*there, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        room = self._rooms.get(cmd_name)
        if room is None or not exists(room.place):
            return super().get_command(ctx, cmd_name)
        module, _, attribute = room.place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._does(name)) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self._does(name)) for name in found]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def _does(self, name: str) -> str:
        room = self._rooms.get(name)
        return room.does if room is not None else self.commands[name].get_short_help_str()


def exists(place: str) -> bool:
    """A room may not have its commands yet."""
    try:
        return util.find_spec(place.partition(":")[0]) is not None
    except ModuleNotFoundError:
        return False
