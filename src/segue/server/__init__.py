"""The HTTP service: `create_app()` makes it, `serve()` runs it."""

from ..core.environment import need_extra

need_extra("The service", "serve", "ag_ui", "fastapi", "uvicorn", "markdown_it", "nh3", "prometheus_client")

from .app import create_app  # noqa: E402 - without the extra, that is the error
from .run import serve  # noqa: E402
from .settings import ServerSettings, check_address, check_port, from_environment  # noqa: E402

__all__ = ["ServerSettings", "check_address", "check_port", "create_app", "from_environment", "serve"]
