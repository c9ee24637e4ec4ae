"""Reservations that nobody goes on with, and that cannot be undone."""

import asyncio
from typing import cast

from pumice.adapters.kubernetes.errors import ApiError
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.reservations import Reservation, ReservationWriter, Undone
from pumice.adapters.kubernetes.volumes import VolumeBinder
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ApplyCode, Reading
from pumice.v1.decision_pb2 import VolumeChoice
from pumice.v1.storage_pb2 import PersistentVolumeClaim
from tests.adapters.fake_clock import FakeClock
from tests.adapters.kubernetes.objects import order


class StubbornVolumes:
    """Takes every reservation, and lets none be undone."""

    def __init__(self) -> None:
        self.undos = 0

    async def write(self, reservation: Reservation) -> None:
        """Reserved."""

    async def undo(self, reservation: Reservation) -> Undone:
        self.undos += 1
        raise ApiError(503, "ServiceUnavailable", "not now")


async def test_reservations_that_cannot_be_undone_are_tried_less_and_less_often() -> None:
    clock, writer, index = FakeClock(), StubbornVolumes(), ObjectIndex()
    index.claims["ns", "c"] = PersistentVolumeClaim(namespace="ns", name="c", uid="uid-c")

    async def read_pod(namespace: str, name: str) -> Reading:
        return Reading(None)

    binder = VolumeBinder(
        cast(ReservationWriter, writer), read_pod, index, clock, Metrics(), 1.0, 30.0
    )
    wanted = order("uid-p", volumes=[VolumeChoice(claim="c", volume_name="va")])
    sweeps = asyncio.create_task(binder.run())
    assert (await binder.prepare(wanted)).code is ApplyCode.WAITING
    await clock.advance(600)
    first = writer.undos
    await clock.advance(3000)
    await end_tasks(sweeps)
    # After 5, 10, 20 … s, then every 300 s at most.
    assert 5 <= first <= 10
    assert 8 <= writer.undos - first <= 22
