"""``pumice completion``: lets a shell complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    r"""Prints a script for a shell to read.

    \b
    bash:  source <(pumice completion bash)
    zsh:   source <(pumice completion zsh)
    fish:  pumice completion fish | source
    """
    class_ = get_completion_class(shell)
    assert class_ is not None
    root = context.find_root()
    made = class_(root.command, {}, "pumice", "_PUMICE_COMPLETE")
    # The source names the shell's function only; it runs the command again to complete.
    click.echo(made.source())
