"""Sends questions of the core to extenders over HTTP, and publishes the answers."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

import aiohttp

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.v1.cluster_service_pb2 import Question
from pumice.v1.delta_pb2 import PluginData

log = logging.getLogger(__name__)

# Number of questions that are in flight at once, and that wait.
MAX_AT_ONCE: Final = 32
MAX_WAITING: Final = 5_000
# Longer answers and names are errors.
MAX_ANSWER_BYTES: Final = 128 * 1024
MAX_NAME: Final = 1_024
# Number of stored answers, and the time for which they are stored.
MAX_ANSWERS: Final = 20_000
_KEPT_SECONDS: Final = 120.0
_TIME_LIMIT_SECONDS: Final = 60.0
_OK: Final = 200
_SHOWN: Final = 200

Publish = Callable[[PluginData], None]


class QuestionAnswerer:
    """Sends each question once, with its timeout, and never retries.

    A question that cannot be sent gets an error as its answer, so that the core need not wait.
    """

    def __init__(self, publish: Publish, clock: Clock, metrics: Metrics) -> None:
        self._publish, self._clock, self._metrics = publish, clock, metrics
        self._waiting: OrderedDict[tuple[str, str], Question] = OrderedDict()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        # Times of the answers, oldest first.
        self._answered: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._http: aiohttp.ClientSession | None = None

    def add(self, questions: Iterable[Question]) -> None:
        self._forget_old()
        for question in questions:
            key = (question.plugin, question.name)
            if key in self._tasks or key in self._waiting:
                continue
            if len(question.name) > MAX_NAME or not question.plugin or not question.name:
                self._metrics.count("questions", result="refused")
            elif len(self._waiting) >= MAX_WAITING:
                self._metrics.count("questions", result="refused")
                self._answer(question, error="too many questions are waiting")
            else:
                self._waiting[key] = question
        self._start()

    async def close(self) -> None:
        self._waiting.clear()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.close()
            self._http = None

    def _start(self) -> None:
        while self._waiting and len(self._tasks) < MAX_AT_ONCE:
            key, question = self._waiting.popitem(last=False)
            task = asyncio.get_running_loop().create_task(self._ask(question))
            self._tasks[key] = task
            task.add_done_callback(lambda _, key=key: self._end(key))  # type: ignore[misc]

    def _end(self, key: tuple[str, str]) -> None:
        self._tasks.pop(key, None)
        self._start()

    async def _ask(self, question: Question) -> None:
        try:
            text = await self._post(question)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            self._metrics.count("questions", result="failed")
            reason = " ".join(str(error).split())[:_SHOWN] or type(error).__name__
            log.debug("no answer about %s: %s", question.name, reason)
            self._answer(question, error=reason)
            return
        self._metrics.count("questions", result="answered")
        self._answer(question, answer=text)

    async def _post(self, question: Question) -> str:
        if self._http is None:
            self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=MAX_AT_ONCE))
        seconds = min(question.timeout.ToTimedelta().total_seconds(), _TIME_LIMIT_SECONDS)
        async with self._http.post(
            question.url,
            data=question.body.encode(),
            headers={"Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=seconds if seconds > 0 else _TIME_LIMIT_SECONDS),
            allow_redirects=False,
        ) as response:
            body = b""
            async for part in response.content.iter_any():
                body += part
                if len(body) > MAX_ANSWER_BYTES:
                    raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES >> 10} KiB")
            if response.status != _OK:
                raise ValueError(f"status {response.status}")
            return body.decode()

    def _answer(self, question: Question, answer: str = "", error: str = "") -> None:
        if not question.needs_answer:
            return
        key = (question.plugin, question.name)
        texts = {"error": error} if error else {"answer": answer}
        time = self._clock.unix_ms() / 1000
        data = PluginData(
            plugin=question.plugin, name=question.name, texts=texts, numbers={"time": time}
        )
        self._publish(data)
        self._answered.pop(key, None)
        self._answered[key] = self._clock.now()

    def _forget_old(self) -> None:
        """Drops answers that are too old, and the oldest if there are too many."""
        before = self._clock.now() - _KEPT_SECONDS
        while self._answered:
            (plugin, name), answered = next(iter(self._answered.items()))
            if answered > before and len(self._answered) <= MAX_ANSWERS:
                return
            self._answered.popitem(last=False)
            self._publish(PluginData(plugin=plugin, name=name))
