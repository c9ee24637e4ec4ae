"""The line about a paused cluster."""

from __future__ import annotations

from rich.markup import escape

from pumice.cli.terminal import print_warning
from pumice.client import Client, Pause


def pause_text(pause: Pause) -> str:
    since = f" since {pause.begin_time:%Y-%m-%d %H:%M:%S}" if pause.begin_time else ""
    return f"the cluster is paused{since}: {pause.message}"


def pause_markup(pause: Pause | None) -> str:
    """The line in rich's markup; empty if the cluster is not paused."""
    return "" if pause is None else f"[bold red]{escape(pause_text(pause))}[/]"


def warn_if_paused(client: Client) -> None:
    pause = client.get_config().pause
    if pause is not None:
        print_warning(pause_text(pause))
