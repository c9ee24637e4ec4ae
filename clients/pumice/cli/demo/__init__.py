"""``pumice demo``: a core and a simulated cluster for half a minute."""

from pumice.cli.demo.command import demo_command

__all__ = ["demo_command"]
