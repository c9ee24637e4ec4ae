"""Errors that end an adapter."""


class AdapterError(Exception):
    """The runtime cannot continue. The message contains advice."""


class FencedError(AdapterError):
    """Another adapter leads this cluster with a higher epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__(
            f"another adapter serves this cluster (epoch {epoch} is fenced);"
            " stop it, or restart this one to take over"
        )
        self.epoch = epoch


class ReplacedError(AdapterError):
    """Another process uses the same adapter id."""

    def __init__(self) -> None:
        super().__init__(
            "a newer stream of the same adapter took over; a second process may use the"
            " same adapter id"
        )


class RefusedError(AdapterError):
    """The core refuses this adapter, and a retry does not help."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"the core refuses this adapter ({code}): {details}")
        self.code = code


class OtherSchedulerError(AdapterError):
    """Another scheduler binds pods of this adapter."""

    def __init__(self, count: int, seconds: float, last: str) -> None:
        super().__init__(
            f"another scheduler bound {count} pods within {seconds:g} s, such as {last}; stop it"
            " (for Volcano: kubectl -n volcano-system scale deployment volcano-scheduler"
            " --replicas=0), or start without --other-scheduler-check"
        )
        self.count = count
