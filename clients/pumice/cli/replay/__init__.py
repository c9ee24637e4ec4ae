"""``pumice replay``: comparisons and what-if runs of recordings."""

from pumice.cli.replay.command import replay_command

__all__ = ["replay_command"]
