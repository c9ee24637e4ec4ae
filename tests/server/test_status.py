"""Every error has a code and a reason, and no caller sees a stack trace."""

import importlib
import pkgutil
from pathlib import Path

import grpc
import pytest

import pumice.server
from pumice.client.details import read_status_details
from pumice.core.errors import InputError, InvariantError, PumiceError
from pumice.server import errors
from pumice.server.status import ERROR_CODES, error_code_of, grpc_status, reason_name, status_of
from pumice.v1 import error_pb2, object_pb2

PROTO = Path(__file__).parents[2] / "proto/pumice/v1/error.proto"


def every_class() -> list[type[PumiceError]]:
    for module in pkgutil.walk_packages(pumice.server.__path__, "pumice.server."):
        importlib.import_module(module.name)
    found: list[type[PumiceError]] = [PumiceError]
    for known in found:
        found += [c for c in known.__subclasses__() if c.__module__.startswith("pumice.")]
    return found


def test_every_class_has_an_answer() -> None:
    """What callers can meet is listed by itself; the rest by whose fault it is."""
    classes = every_class()
    listed = [c for c in classes if issubclass(c, errors.ServiceError)]
    assert [c.__name__ for c in listed if c not in ERROR_CODES] == []
    fault = (InputError, InvariantError)
    assert [c.__name__ for c in classes if not issubclass(c, fault)] == ["PumiceError"]


def test_every_answer_is_for_a_class_that_exists() -> None:
    assert set(ERROR_CODES) <= set(every_class())


def test_every_reason_is_used_and_belongs_to_one_code() -> None:
    codes: dict[int, set[grpc.StatusCode]] = {}
    for code, reason in ERROR_CODES.values():
        codes.setdefault(reason, set()).add(code)
    assert set(codes) == set(error_pb2.ErrorReason.values()) - {0}
    assert [reason for reason, found in codes.items() if len(found) > 1] == []


def test_the_protocol_names_the_code_of_every_reason() -> None:
    lines = PROTO.read_text().splitlines()
    for code, reason in set(ERROR_CODES.values()):
        name = f"  ERROR_REASON_{reason_name(reason)} ="
        (at,) = (number for number, line in enumerate(lines) if line.startswith(name))
        assert lines[at - 1].endswith(f" {code.name}."), lines[at - 1]


@pytest.mark.parametrize("error", [InvariantError("secret"), RuntimeError("secret")])
def test_our_own_bugs_are_not_told(error: Exception) -> None:
    assert error_code_of(error).code is grpc.StatusCode.INTERNAL
    assert b"secret" not in status_of(error).SerializeToString()


def test_details_travel_with_the_status() -> None:
    status = grpc_status(errors.LimitError("credit", 10, 11))
    assert status.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    detail = read_status_details(status.trailing_metadata)
    assert (detail.reason, detail.advice) == ("LIMIT_EXCEEDED", "stay within the limit")
    assert (detail.limit_name, detail.limit, detail.given) == ("credit", 10, 11)
    assert read_status_details(()).reason == ""


def test_a_wrong_field_is_named_and_waiting_is_advised_where_it_helps() -> None:
    wrong = read_status_details(
        grpc_status(errors.HelloFieldError("epoch", "is 0")).trailing_metadata
    )
    assert (wrong.reason, wrong.violations) == ("INVALID_FIELD", [("epoch", "is 0")])
    assert wrong.retry_after_seconds == 0
    soon = read_status_details(grpc_status(errors.NotReadyError("c")).trailing_metadata)
    assert (soon.reason, soon.metadata) == ("CLUSTER_NOT_READY", {"cluster": "c"})
    assert soon.retry_after_seconds > 0


def test_the_served_epoch_is_told() -> None:
    detail = read_status_details(grpc_status(errors.StaleEpochError(3, 7)).trailing_metadata)
    assert (detail.reason, detail.metadata) == ("EPOCH_STALE", {"served_epoch": "7"})


def test_details_stay_below_what_clients_accept() -> None:
    bad = [object_pb2.RejectedObject(key=f"ns/p{i}", reason="x" * 400) for i in range(100)]
    status = status_of(errors.ObjectsRejectedError(bad, 100))
    assert len(status.SerializeToString()) < 8192
    detail = read_status_details(
        grpc_status(errors.ObjectsRejectedError(bad, 100)).trailing_metadata
    )
    assert detail.reason == "OBJECTS_REJECTED"
    assert detail.rejected[0].key == "ns/p0"


def test_metadata_of_reasons_is_text_that_headers_can_carry() -> None:
    status = grpc_status(errors.UnknownClusterError("zürich\n", ["zürich"]))
    assert read_status_details(status.trailing_metadata).nearest_names == ["zürich"]


def test_every_service_error_has_advice() -> None:
    classes = [c for c in every_class() if issubclass(c, errors.ServiceError)]
    assert all(c.advice for c in classes)
