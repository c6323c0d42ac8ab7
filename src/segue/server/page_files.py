"""The files of the web page, which need no key: the page asks for one itself."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).with_name("page")
DOCUMENTS = {"/": "index.html", "/docs": "docs.html"}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""By ending: browsers run no module of another type, and a machine may be configured to say another."""


class PageFiles(StaticFiles):
    """The folder's files. A browser keeps them and asks each time whether they changed."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER)

    def file_response(
        self, full_path: "str | os.PathLike[str]", stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        if kind := _TYPES.get(Path(full_path).suffix):
            response.headers["Content-Type"] = f"{kind}; charset=utf-8"
        return response


def add_page(application: FastAPI) -> None:
    """Serve the documents by their paths, and everything that they load below `/page/`."""
    files = PageFiles()
    for path, name in DOCUMENTS.items():
        application.add_route(path, _document(files, name), include_in_schema=False)
    application.mount("/page", files)


def _document(files: PageFiles, name: str) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        return await files.get_response(name, request.scope)

    return respond
