"""Checks third-party plugins: an error or an invalid result is attributed to the plugin.

Built-in plugins are trusted and called directly. Every function that another plugin registers is
wrapped: an error in it, or a result of the wrong type or shape, ends the session with the plugin's
name, and the engine runs the session again without that plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from traceback import walk_tb
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.decisions import PluginFault
from pumice.core.errors import InvariantError
from pumice.core.session.feasibility.terms import KERNEL_TERMS
from pumice.core.session.guarding.checks import (
    check_of,
    hashable,
    missing,
    real,
    row_term,
    scores_of,
    sortable,
    text_or_none,
    truth,
    truth_or_none,
    whole,
)
from pumice.core.session.hooks import EventHandler
from pumice.core.session.policies import (
    AllocatableCount,
    ClassRule,
    DomainScore,
    MissingTasks,
    MissingVote,
    PlainRule,
    RowTerms,
    SortKey,
    StateRule,
    VictimRule,
)

if TYPE_CHECKING:
    from pumice.core.session.session import Session

Check = Callable[[tuple[Any, ...], Any], Any]
# The functions inside the strong forms of policies, and the check of their results; None: the check
# of the hook. Some of the functions are optional.
_CHECKS: dict[type, dict[str, Callable[[Any], Any] | None]] = {
    SortKey: {"key": sortable},
    AllocatableCount: {"count": whole},
    MissingTasks: {"missing": missing},
    MissingVote: {"missing": missing},
    DomainScore: {"bonus": real},
    VictimRule: {"victims": None, "mark": real, "limit": real},
    RowTerms: {"term": row_term, "of_facet": row_term, "facet": hashable},
    ClassRule: {"answer": None, "version": hashable, "facet": hashable, "version_of": hashable},
    PlainRule: {"of_class": truth_or_none, "of_task": truth, "prepare": whole},
    StateRule: {"answer": None, "concerns": truth, "facet": hashable},
}
# Checks that need the arguments of the function; they get the check of the hook, the arguments and
# the result.
_IN_CONTEXT: dict[type, dict[str, Callable[[Check, tuple[Any, ...], Any], Any]]] = {
    # Unlike the hook, it gets the facet between class and rows.
    StateRule: {"answer": lambda check, given, result: check((given[0], given[2]), result)},
    DomainScore: {"score": lambda _check, given, result: scores_of(len(given[1]), result)},
}
# The methods of a simulation.
_SIMULATION: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("add", "remove", "why_not"), text_or_none),
    "is_allocatable": truth,
}
_MISSING = object()


class PluginFailedError(Exception):
    """A plugin raised, or returned an invalid value; the session is undone and run again without it."""

    def __init__(
        self, plugin: str, where: str, error: Exception, function: Callable[..., Any] | None = None
    ) -> None:
        """``function`` is the one that was called, for an error that its code did not raise."""
        super().__init__(f"{plugin}: {where}: {error}")
        self.plugin = plugin
        self.where = where
        self.error = error
        self._function = function

    def fault(self, module: str) -> PluginFault:
        """The report on this error; ``module`` is that of the plugin."""
        text = f"{type(self.error).__name__}: {self.error}"
        return PluginFault(self.plugin, self.where, "", text, *self._position(module))

    def _position(self, module: str) -> tuple[str, int]:
        """File and line of the error in the plugin's code; empty and 0: the plugin's code has none."""
        position = ("", 0)
        for frame, line in walk_tb(self.error.__traceback__):
            if _is_in(module, frame.f_globals):
                position = (frame.f_code.co_filename, line)
        code = getattr(self._function, "__code__", None)
        if position == ("", 0) and code is not None:
            position = (code.co_filename, code.co_firstlineno)
        return position


def _is_in(module: str, names: Mapping[str, Any]) -> bool:
    """Whether global names are those of a module or of a submodule."""
    name = str(names.get("__name__", ""))
    return name == module or name.startswith(f"{module}.")


@contextmanager
def attributed_to(plugin: str, where: str) -> Iterator[None]:
    """Attributes errors inside the block to a plugin."""
    try:
        yield
    except (InvariantError, PluginFailedError):
        # A bug of the engine is not attributed to a plugin.
        raise
    except Exception as error:
        raise PluginFailedError(plugin, where, error) from error


def fault_of(modules: Mapping[str, str], traceback: TracebackType | None) -> tuple[str, str] | None:
    """The plugin with the innermost frame of a traceback, and the function of that frame."""
    last = None
    for frame, _ in walk_tb(traceback):
        for module, name in modules.items():
            if _is_in(module, frame.f_globals):
                last = (name, frame.f_code.co_name)
    return last


class HookGuard:
    """Wraps the functions that one plugin registers between the guard's creation and ``wrap_new``."""

    def __init__(self, session: Session, plugin: str) -> None:
        self._plugin = plugin
        self._timings = session.timings
        self._hooks = session.hooks
        self._table = session.table
        self._before = {
            point.name: dict(getattr(self._hooks, point.name))
            for point in fields(self._hooks)
            if point.name != "handlers"
        }
        self._handlers = list(self._hooks.handlers)

    def wrap_new(self) -> None:
        """Wraps the functions that the plugin has registered."""
        for point, before in self._before.items():
            functions: dict[str, Any] = getattr(self._hooks, point)
            for name in sorted({*before, *functions}):
                if name in before and before[name] is functions.get(name, _MISSING):
                    continue
                if name != self._plugin:
                    raise TypeError(f"it changes {point} of the plugin {name}")
                functions[name] = self._guarded(point, functions[name])
        handlers = self._hooks.handlers
        count = len(self._handlers)
        if handlers[:count] != self._handlers:
            raise TypeError("it changes the handlers of other plugins")
        handlers[count:] = [self._handler(handler) for handler in handlers[count:]]

    def _guarded(self, point: str, function: Any) -> Any:
        if not callable(function):
            raise TypeError(f"{point} must be a function, is {function!r}")
        if point == "simulation":
            return partial(self._simulate, function)
        check = check_of(point, self._table)
        form = type(function)
        if form not in _CHECKS:
            return self.wrapped(point, function, check)
        checks: dict[str, Check] = {
            part: _checking(own) if own else check for part, own in _CHECKS[form].items()
        }
        checks |= {part: partial(own, check) for part, own in _IN_CONTEXT.get(form, {}).items()}
        parts = {
            part: self.wrapped(f"{point}.{part}", given, own)
            for part, own in checks.items()
            if (given := getattr(function, part)) is not None
        }
        if isinstance(function, DomainScore):
            real(function.factor)
        if isinstance(function, RowTerms):
            if function.facet is not None and (point != "row_score" or function.of_facet is None):
                raise TypeError(
                    f"{point}: a facet needs of_facet, and is allowed at row_score only"
                )
            for part in parts.keys() & {"term", "of_facet"}:
                parts[part] = partial(self._term, point, check, parts[part])
        return replace(function, **parts)

    def _handler(self, handler: Any) -> EventHandler:
        if not isinstance(handler, EventHandler):
            raise TypeError(f"a handler must be an EventHandler, is {handler!r}")
        allocated = self.wrapped("handlers.allocated", handler.allocated, _checking(text_or_none))
        deallocated = handler.deallocated
        if deallocated is not None:
            nothing = _checking(lambda _result: None)
            deallocated = self.wrapped("handlers.deallocated", deallocated, nothing)
        return EventHandler(allocated, deallocated)

    def wrapped(self, where: str, function: Callable[..., Any], check: Check) -> Any:
        """The function, with its errors and invalid results attributed to the plugin."""

        def call(*arguments: Any) -> Any:
            try:
                # Lists are copied, so that a plugin cannot change those of the session.
                copies = tuple(list(part) if isinstance(part, list) else part for part in arguments)
                return check(arguments, function(*copies))
            except (InvariantError, PluginFailedError):
                raise
            except Exception as error:
                raise PluginFailedError(self._plugin, where, error, function) from error

        return self._timings.timed(self._plugin, call)

    def _term(
        self, point: str, check: Check, make: Callable[..., Any], class_: TaskClass, *facet: Any
    ) -> Any:
        """A third-party term; a term that the kernel does not support is wrapped."""
        term = make(class_, *facet)
        if isinstance(term, KERNEL_TERMS[point]):
            return term
        evaluate = self.wrapped(
            f"{point}.evaluate",
            term.evaluate,
            lambda given, result: check((class_, *given), result),
        )
        return SimpleNamespace(evaluate=evaluate)

    def _simulate(self, make: Callable[[Task, int], Any], task: Task, row: int) -> Any:
        """A third-party simulation with wrapped methods."""
        with attributed_to(self._plugin, "simulation"):
            made = make(task, row)
            methods = {
                name: self.wrapped(f"simulation.{name}", getattr(made, name), _checking(check))
                for name, check in _SIMULATION.items()
            }
        return SimpleNamespace(**methods)


def _checking(check: Callable[[Any], Any]) -> Check:
    return lambda _arguments, result: check(result)
