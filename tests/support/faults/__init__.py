"""Faults that a real implementation of the four protocols could have, each against one sentence of a text."""

from tests.support.faults.aidre import AIDRE_FAULTS
from tests.support.faults.exchange import Fault, FaultMiddleware
from tests.support.faults.intake import INTAKE_FAULTS
from tests.support.faults.intent import INTENT_FAULTS
from tests.support.faults.nlweb import NLWEB_FAULTS

FAULTS: dict[str, Fault] = {
    fault.name: fault for fault in (*AIDRE_FAULTS, *NLWEB_FAULTS, *INTENT_FAULTS, *INTAKE_FAULTS)
}

__all__ = ["FAULTS", "Fault", "FaultMiddleware"]
