"""``pumice replay``: a recording again, compared with itself or under another configuration."""

from pumice.cli.replay.command import replay_command

__all__ = ["replay_command"]
