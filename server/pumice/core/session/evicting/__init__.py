"""The search for victims: actions and plugins import from here, never from the modules inside."""

from pumice.core.session.evicting.broken_gangs import GANG_BROKEN, break_up
from pumice.core.session.evicting.bundles import First
from pumice.core.session.evicting.candidates import EvictionNodes, fits_when_empty, frees_enough
from pumice.core.session.evicting.domain import GangEviction, GangVictims
from pumice.core.session.evicting.gang_action import GANG_ARGUMENTS, GangActionRun
from pumice.core.session.evicting.order import VictimOrder
from pumice.core.session.evicting.search import CandidateRows, VictimFilter, VictimSearch
from pumice.core.session.evicting.simulation import SimulatedNode

__all__ = [
    "GANG_ARGUMENTS",
    "GANG_BROKEN",
    "CandidateRows",
    "EvictionNodes",
    "First",
    "GangActionRun",
    "GangEviction",
    "GangVictims",
    "SimulatedNode",
    "VictimFilter",
    "VictimOrder",
    "VictimSearch",
    "break_up",
    "fits_when_empty",
    "frees_enough",
]
