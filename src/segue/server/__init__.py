"""The HTTP service: `create_app()` makes it, `serve()` runs it."""

from .create import create_app
from .logs import configure_logs
from .running import serve
from .settings import ServerSettings, check_address, from_environment

__all__ = ["ServerSettings", "check_address", "configure_logs", "create_app", "from_environment", "serve"]
