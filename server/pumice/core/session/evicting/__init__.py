"""The search for victims: actions and plugins import from here, never from the modules inside."""

from pumice.core.session.evicting.broken_gangs import GANG_BROKEN, break_up
from pumice.core.session.evicting.bundles import First
from pumice.core.session.evicting.candidates import EvictionNodes, frees_enough
from pumice.core.session.evicting.domain import GangEviction, GangVictims
from pumice.core.session.evicting.gang_action import (
    REMEMBERS_ERRORS,
    GangActionRun,
    GangArguments,
)
from pumice.core.session.evicting.order import VictimOrder
from pumice.core.session.evicting.search import CandidateRows, VictimFilter, VictimSearch
from pumice.core.session.evicting.simulation import SimulatedNode
from pumice.core.session.evicting.sums import EvictableSums

__all__ = [
    "GANG_BROKEN",
    "REMEMBERS_ERRORS",
    "CandidateRows",
    "EvictableSums",
    "EvictionNodes",
    "First",
    "GangActionRun",
    "GangArguments",
    "GangEviction",
    "GangVictims",
    "SimulatedNode",
    "VictimFilter",
    "VictimOrder",
    "VictimSearch",
    "break_up",
    "frees_enough",
]
