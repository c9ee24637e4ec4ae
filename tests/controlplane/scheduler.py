"""The scheduler as users run it: a core and adapters, as processes that tests may kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.guard import GUARD

_PROGRAM = (sys.executable, "-c", "from pumice.cli.main import main; main()")
_END_SECONDS = 20.0
# Short enough for a test, long enough for a busy machine.
QUICK_LEASE = (
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=0.5s",
)


@dataclass(slots=True)
class Child:
    """A process with its output in a file."""

    log: Path
    process: subprocess.Popen[bytes]
    # Whether the test ended it.
    was_ended: bool = False

    @classmethod
    def start(cls, log: Path, *arguments: str) -> Child:
        with log.open("ab") as file:
            process = GUARD.start([*_PROGRAM, *arguments], file)
        return cls(log, process)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.was_ended = True
        self.process.kill()
        self.process.wait(_END_SECONDS)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """Sends SIGTERM, and returns the exit code."""
        self.was_ended = True
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


@dataclass(slots=True)
class Scheduler:
    """A core on a socket in a folder, and the adapters that use it."""

    folder: Path
    children: list[Child] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"unix:{self.folder / 'core.sock'}"

    def start_core(self) -> Child:
        log = self.folder / f"core-{len(self.children)}.log"
        return self._keep(Child.start(log, "core", "--listen", self.address))

    def start_adapter(self, kubeconfig: Path, *flags: str) -> Child:
        number = len(self.children)
        log = self.folder / f"adapter-{number}.log"
        return self._keep(
            Child.start(
                log,
                "adapter",
                "kubernetes",
                f"--core={self.address}",
                f"--kubeconfig={kubeconfig}",
                f"--adapter-id=adapter-{number}",
                *QUICK_LEASE,
                *flags,
            )
        )

    def start_controllers(self, kubeconfig: Path, *flags: str) -> Child:
        """`pumice controllers`."""
        log = self.folder / f"controllers-{len(self.children)}.log"
        arguments = ("controllers", f"--kubeconfig={kubeconfig}", *QUICK_LEASE, *flags)
        return self._keep(Child.start(log, *arguments))

    def start_both(self, kubeconfig: Path, *flags: str) -> Child:
        """`pumice run`."""
        log = self.folder / f"run-{len(self.children)}.log"
        arguments = ("run", f"--kubeconfig={kubeconfig}", *QUICK_LEASE, *flags)
        return self._keep(Child.start(log, *arguments))

    def _keep(self, child: Child) -> Child:
        self.children.append(child)
        return child

    def stop(self) -> None:
        # Adapters end before their core, because they report outcomes to it.
        for child in reversed(self.children):
            if child.process.poll() is None:
                child.resume()
                child.stop()

    def surprises(self) -> list[str]:
        """Processes that ended by themselves."""
        return [
            f"{child.log.name}: exit code {child.process.poll()}"
            for child in self.children
            if not child.was_ended and child.process.poll() is not None
        ]

    def said(self, lines: int = 25) -> str:
        parts = []
        for child in self.children:
            tail = "\n".join(child.said.splitlines()[-lines:])
            parts.append(f"-- {child.log.name} (exit code {child.process.poll()})\n{tail}")
        return "\n".join(parts)
