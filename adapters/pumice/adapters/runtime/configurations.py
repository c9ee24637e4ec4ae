"""Sends the core the wanted scheduler configuration, or the last accepted one.

A refused configuration never replaces one that works. If the core has none in use, because the core
or this adapter is new, the core gets the last accepted one, which is stored outside the process.
Without one, it gets the built-in default.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.clock import Backoff, Clock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.outbox import Outbox
from pumice.adapters.runtime.world import ConfigurationMissing, ConfigurationSeen
from pumice.v1.cluster_service_pb2 import ConfigurationResult
from pumice.v1.configuration_pb2 import Configuration

log = logging.getLogger(__name__)

_BUILT_IN: Final = "the built-in default"
_MOST_PROBLEMS: Final = 20
# Delays between attempts to save a configuration, while it is in use.
_SAVE_BACKOFF: Final = Backoff(5.0, 600.0)


class ConfigurationStore(Protocol):
    """Stores the last accepted configuration for the next process."""

    @property
    def description(self) -> str: ...

    async def load(self) -> str | None:
        """The scheduler configuration that was saved last; None: none."""
        ...

    async def save(self, text: str, source: str) -> bool:
        """Saves a configuration; returns False if a retry may help."""
        ...

    async def report_refusal(self, problem: str) -> None:
        """Reports problems on the source of the configuration."""
        ...


@dataclass(frozen=True, slots=True)
class _Offer:
    """A configuration and its source."""

    configuration: Configuration
    source: str

    @property
    def text(self) -> str:
        return self.configuration.scheduler_conf

    @property
    def is_empty(self) -> bool:
        """Whether a source that should have a configuration has an empty one."""
        return not self.text.strip() and self.source not in ("", _BUILT_IN)

    def shown(self) -> str:
        if not self.text.strip():
            return f"{_BUILT_IN}, because {self.source} is empty" if self.is_empty else _BUILT_IN
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:12]
        return f"{self.source} ({len(self.text)} characters, sha256 {digest})"


class ConfigurationKeeper:
    """Offers configurations to the core, and handles its results."""

    def __init__(
        self,
        buffer: ResumeBuffer,
        outbox: Outbox,
        store: ConfigurationStore | None,
        clock: Clock,
        metrics: Metrics,
        *,
        use_default: bool,
    ) -> None:
        self._buffer, self._outbox, self._store = buffer, outbox, store
        self._clock, self._metrics = clock, metrics
        self._use_default = use_default
        # The configuration of the world, the last one sent, and the last accepted one.
        self._wanted: _Offer | None = None
        self._offered: _Offer | None = None
        self._accepted: _Offer | None = None
        # The configuration that was sent before the last one.
        self._before: _Offer | None = None
        # Texts that the core refused since the last configuration of the world.
        self._refused: set[str] = set()
        # The text that was last passed to the store; and a lock for one save at a time.
        self._saved: str | None = None
        self._saving = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    # Configurations of the world.

    def handle(self, event: ConfigurationSeen) -> None:
        self._wanted = _Offer(event.configuration, event.source)
        self._refused.clear()
        self._offer(self._wanted)

    def handle_missing(self, event: ConfigurationMissing) -> None:
        """Handles a missing configuration: uses the accepted, stored or default one."""
        log.warning("%s; the last valid configuration is used", event.problem)
        if self._accepted is None and self._offered is None:
            self._wanted = _Offer(event.configuration, event.source)
            self._start(self._fall_back(self._wanted, is_another_in_use=False))

    # Results of the core.

    @property
    def is_valid(self) -> bool:
        """Whether the core uses a configuration that this adapter sent."""
        return self._accepted is not None

    def why_none(self) -> str:
        """Why nothing is scheduled; "": a configuration is in use, or its result is pending."""
        if self._accepted is None and self._refused:
            return "no valid configuration: nothing is scheduled"
        return ""

    def handle_result(self, result: ConfigurationResult) -> None:
        self._metrics.count("configurations", accepted=str(result.accepted).lower())
        sent = self._outbox.sent_configurations.pop(result.seq, None)
        if self._offered is not None and sent is self._offered.configuration:
            if result.accepted:
                self._accept(self._offered, result)
            else:
                self._refuse(self._offered, result)
        elif self._before is not None and sent is self._before.configuration and result.accepted:
            # Another one was offered before this result arrived, and may be refused.
            self._accepted = self._before

    async def stop(self) -> None:
        await end_tasks(*self._tasks)

    def _accept(self, offered: _Offer, result: ConfigurationResult) -> None:
        is_new = self._accepted != offered
        self._accepted = offered
        is_wanted = offered is self._wanted
        self._metrics.gauge("configuration_refused", 0 if is_wanted else 1)
        if not is_new:
            return
        for problem in _problems(result):
            log.warning("configuration, warning: %s", problem)
        self._metrics.gauge("configuration_since_seconds", self._clock.unix_ms() / 1000)
        level = logging.INFO if is_wanted and not offered.is_empty else logging.WARNING
        log.log(level, "configuration in use: %s", offered.shown())
        if is_wanted and self._store is not None and self._saved != offered.text:
            self._saved = offered.text
            self._start(self._save(self._store, offered))

    async def _save(self, store: ConfigurationStore, offered: _Offer) -> None:
        """Saves a configuration, for a failover while the current one is invalid."""
        rng, failures = random.Random(), 0
        while self._saved == offered.text:
            async with self._saving:
                # Another one may have been accepted in between.
                if self._saved != offered.text or await store.save(offered.text, offered.source):
                    return
            failures += 1
            await self._clock.sleep(_SAVE_BACKOFF.delay(failures, rng))

    def _refuse(self, offered: _Offer, result: ConfigurationResult) -> None:
        self._refused.add(offered.text)
        self._metrics.gauge("configuration_refused", 1)
        problems = _problems(result)
        for problem in problems:
            log.error("configuration refused (%s): %s", offered.source or "given", problem)
        if self._store is not None and offered is self._wanted:
            self._start(self._store.report_refusal("; ".join(problems)))
        in_use = bool(result.effective_config_hash)
        self._start(self._fall_back(offered, is_another_in_use=in_use))

    # Fallbacks.

    async def _fall_back(self, refused: _Offer, *, is_another_in_use: bool) -> None:
        wanted = self._wanted
        fallback = await self._fallback(refused.configuration)
        if self._wanted is not wanted:
            # The world has another configuration now.
            return
        if fallback is None:
            if not is_another_in_use:
                log.error("no valid configuration: nothing is scheduled until there is one")
            return
        if is_another_in_use:
            log.warning("the core keeps the configuration that is in use")
        else:
            log.warning("this configuration is used instead: %s", fallback.shown())
        self._offer(fallback, send=not is_another_in_use)

    async def _fallback(self, base: Configuration) -> _Offer | None:
        if self._accepted is not None and self._accepted.text not in self._refused:
            return self._accepted
        if self._store is None:
            return None
        text = await self._store.load()
        if text is not None and text not in self._refused:
            return _Offer(_with_text(base, text), self._store.description)
        if self._use_default and "" not in self._refused:
            return _Offer(_with_text(base, ""), _BUILT_IN)
        return None

    def _offer(self, offer: _Offer, *, send: bool = True) -> None:
        """Stores a configuration for the next snapshot, and sends it now if ``send``."""
        self._before, self._offered = self._offered, offer
        # The core shows the source with the configuration.
        offer.configuration.source = offer.source or _BUILT_IN
        self._buffer.configuration = offer.configuration
        if send:
            self._outbox.configure()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _with_text(base: Configuration, text: str) -> Configuration:
    configuration = Configuration()
    configuration.CopyFrom(base)
    configuration.scheduler_conf = text
    return configuration


def _problems(result: ConfigurationResult) -> Sequence[str]:
    shown = []
    for problem in result.problems[:_MOST_PROBLEMS]:
        line = f"line {problem.line}, " if problem.line else ""
        path = f"{problem.path}: " if problem.path else ""
        shown.append(f"{line}{path}{problem.problem}")
    left = len(result.problems) - _MOST_PROBLEMS
    return [*shown, f"and {left} more"] if left > 0 else shown
