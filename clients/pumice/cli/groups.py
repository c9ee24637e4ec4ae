"""Command groups that import commands lazily and suggest names for unknown ones."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

_UNLIMITED = 1000


class LazyCommand(NamedTuple):
    """The import path of a command, ``module:attribute``, and its line in the list of commands."""

    place: str
    short_help: str

    def load(self) -> click.Command:
        module, _, attribute = self.place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


class SuggestingGroup(click.Group):
    """A group whose error for an unknown command suggests a similar name, or lists all names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        known = self.list_commands(ctx)
        if word not in known and not word.startswith("-"):
            raise click.UsageError(f"unknown command {word!r}; {self.hint(word, known)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Wraps long help lines instead of truncating them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.short_help_of(name, ctx)) for name in self.list_commands(ctx)]
            )

    def short_help_of(self, name: str, ctx: click.Context) -> str:
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=_UNLIMITED)

    def hint(self, word: str, names: list[str]) -> str:
        near = get_close_matches(word, names, n=1, cutoff=0.6)
        return f"did you mean {near[0]!r}?" if near else f"allowed: {', '.join(names)}"


class LazyGroup(SuggestingGroup):
    """A group whose commands are imported when they are called."""

    def __init__(self, *args: Any, lazy_commands: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        return self._lazy[cmd_name].load()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self.short_help_of(name, ctx)) for name in found]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def short_help_of(self, name: str, ctx: click.Context) -> str:
        if name in self._lazy:
            return self._lazy[name].short_help
        return super().short_help_of(name, ctx)
