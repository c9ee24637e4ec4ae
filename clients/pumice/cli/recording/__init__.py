"""``pumice recording``: facts about recordings, and copies of parts of them."""

from pumice.cli.recording.command import recording_group

__all__ = ["recording_group"]
