"""What a signal to end does to the work of a process."""

from collections.abc import Callable


class Shutdown:
    """A request to end: graceful the first time where the work offers that, else a cancellation."""

    def __init__(self) -> None:
        self._graceful: Callable[[], None] | None = None

    def offer(self, graceful: Callable[[], None]) -> None:
        """From now on the first request calls this."""
        self._graceful = graceful

    def request(self, cancel: Callable[[], object]) -> None:
        graceful, self._graceful = self._graceful, None
        if graceful is None:
            cancel()
        else:
            graceful()
