"""Faults that a real implementation of the four protocols could have, each against one sentence of a text."""

from tests.wrong_servers.faults.aidre import AIDRE_FAULTS
from tests.wrong_servers.faults.exchange import Fault, FaultMiddleware
from tests.wrong_servers.faults.intake import INTAKE_FAULTS
from tests.wrong_servers.faults.intent import INTENT_FAULTS
from tests.wrong_servers.faults.nlweb import NLWEB_FAULTS

FAULTS: dict[str, Fault] = {
    fault.name: fault for fault in (*AIDRE_FAULTS, *NLWEB_FAULTS, *INTENT_FAULTS, *INTAKE_FAULTS)
}

__all__ = ["FAULTS", "Fault", "FaultMiddleware"]
