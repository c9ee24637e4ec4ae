"""Every error has its code, and no caller sees a stack trace."""

import importlib
import pkgutil

import grpc
import pytest

import pumice.server
from pumice.core.errors import InputError, InvariantError, PumiceError
from pumice.server import errors
from pumice.server.status import CODES, code_of, detail_of, message_of, read_detail
from pumice.server.status import trailing_metadata as metadata_of


def every_class() -> list[type[PumiceError]]:
    for module in pkgutil.walk_packages(pumice.server.__path__, "pumice.server."):
        importlib.import_module(module.name)
    found: list[type[PumiceError]] = [PumiceError]
    for known in found:
        found += [c for c in known.__subclasses__() if c.__module__.startswith("pumice.")]
    return found


def test_every_class_has_a_code() -> None:
    """What callers can meet is listed by itself; the rest by whose fault it is."""
    classes = every_class()
    listed = [c for c in classes if issubclass(c, errors.ServiceError)]
    assert [c.__name__ for c in listed if c not in CODES] == []
    fault = (InputError, InvariantError)
    assert [c.__name__ for c in classes if not issubclass(c, fault)] == ["PumiceError"]


def test_every_code_is_for_a_class_that_exists() -> None:
    assert set(CODES) <= set(every_class())


@pytest.mark.parametrize("error", [InvariantError("secret"), RuntimeError("secret")])
def test_our_own_bugs_are_not_told(error: Exception) -> None:
    assert code_of(error) is grpc.StatusCode.INTERNAL
    assert "secret" not in message_of(error)


def test_details_travel_with_the_status() -> None:
    error = errors.LimitError("credit", 10, 11)
    assert read_detail(metadata_of(error)) == detail_of(error)
    assert read_detail(()) is None


def test_every_service_error_has_advice() -> None:
    classes = [c for c in every_class() if issubclass(c, errors.ServiceError)]
    assert all(c.advice for c in classes)
