"""The HTTP service: `create_app()` makes it, `serve()` runs it."""

from .app import create_app
from .run import configure_logs, serve
from .settings import ServerSettings, check_address, check_port, from_environment

__all__ = ["ServerSettings", "check_address", "check_port", "configure_logs", "create_app", "from_environment", "serve"]
