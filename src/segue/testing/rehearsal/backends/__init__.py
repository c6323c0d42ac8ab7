"""The simulated systems of the shipped workflows, and the registry that yours are added to."""

from ....core.agents import load_attribute
from ....core.errors import ConfigurationError, listed
from .backend import Backend, Refused, Response
from .clinic_appointment import CLINIC_APPOINTMENT
from .device_return import DEVICE_RETURN
from .travel_change import TRAVEL_CHANGE

BACKENDS: dict[str, Backend] = {}


def register_backend(backend: Backend) -> None:
    """Add a backend, or replace the one of that name."""
    BACKENDS[backend.name] = backend


def find_backend(name: str) -> Backend:
    """The backend of that name; `module:NAME` imports one of your own.

    Raises:
        ConfigurationError: listing the backends that there are, or it is none that can be imported.
    """
    if ":" in name:
        found = load_attribute(name)
        if not isinstance(found, Backend):
            raise ConfigurationError("'{name}' is no backend: make it a Backend(name, initial, apis).", name=name)
        return found
    if name not in BACKENDS:
        raise ConfigurationError(
            "There is no backend '{name}'; use one of: {known}, or your own as module:NAME.",
            name=name,
            known=listed(BACKENDS),
        )
    return BACKENDS[name]


for _shipped in (TRAVEL_CHANGE, CLINIC_APPOINTMENT, DEVICE_RETURN):
    register_backend(_shipped)

__all__ = ["BACKENDS", "Backend", "Refused", "Response", "find_backend", "register_backend"]
