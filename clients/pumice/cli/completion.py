"""``pumice completion``: a script for shell completion of commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HELP = """Prints a completion script for a shell.

\b
bash:  source <(pumice completion bash)
zsh:   source <(pumice completion zsh)
fish:  pumice completion fish | source
"""


@click.command("completion", help=_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    class_ = get_completion_class(shell)
    assert class_ is not None
    root = context.find_root()
    # The script calls the command again for each completion.
    click.echo(class_(root.command, {}, "pumice", "_PUMICE_COMPLETE").source())
