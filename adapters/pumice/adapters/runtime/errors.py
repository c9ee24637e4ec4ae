"""Why an adapter ends instead of trying again."""


class AdapterError(Exception):
    """The runtime cannot go on by itself; the message says what to do."""


class FencedError(AdapterError):
    """Another adapter leads this cluster with a higher epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__(
            f"another adapter serves this cluster (epoch {epoch} is fenced);"
            " stop it, or start this one again to take over"
        )
        self.epoch = epoch


class ReplacedError(AdapterError):
    """Another process speaks for the same adapter by now."""

    def __init__(self) -> None:
        super().__init__(
            "a newer stream of the same adapter took over; is a second process running under the"
            " same adapter id?"
        )


class RefusedError(AdapterError):
    """The core does not want this adapter, and would not tomorrow."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"the core refuses this adapter ({code}): {details}")
        self.code = code


class OtherSchedulerError(AdapterError):
    """Another scheduler binds the pods that this adapter is to schedule."""

    def __init__(self, count: int, seconds: float, last: str) -> None:
        super().__init__(
            f"another scheduler bound {count} pods within {seconds:g} s, such as {last}; stop it"
            " (for Volcano: kubectl -n volcano-system scale deployment volcano-scheduler"
            " --replicas=0), or start without --other-scheduler-check"
        )
        self.count = count
