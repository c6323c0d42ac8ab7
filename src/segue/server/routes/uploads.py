"""A file that a request uploads: as its body, or as a part of a form."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.datastructures import UploadFile

from ..errors import Problem
from .dependencies import Unset

BINARY = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"file": BINARY}, "required": ["file"]}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": BINARY}, "multipart/form-data": {"schema": _FORM}},
    }
}
"""The bodies of a route that takes in a file, as the OpenAPI document has them."""
Name = Annotated[
    str | Unset,
    Query(min_length=1, max_length=255, description="What the file is called; of a form, in place of its own name."),
]


async def _form(request: Request, name: Name = None) -> tuple[str, bytes, Mapping[str, str]]:
    """The name and the content, and the other fields of the form."""
    if not request.headers.get("Content-Type", "").startswith("multipart/form-data"):
        if name is None:
            raise Problem(422, "NoFileName")
        return name, await request.body(), {}
    async with request.form(max_files=1) as form:
        file = next((part for part in form.values() if isinstance(part, UploadFile)), None)
        if file is None or not (named := name or file.filename):
            raise Problem(422, "NoFile")
        fields = {field: value for field, value in form.items() if isinstance(value, str)}
        return named, await file.read(), fields


FormDep = Annotated[tuple[str, bytes, Mapping[str, str]], Depends(_form)]


def _file(form: FormDep) -> tuple[str, bytes]:
    return form[0], form[1]


FileDep = Annotated[tuple[str, bytes], Depends(_file)]
