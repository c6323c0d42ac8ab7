"""Markdown as HTML, for a page that shows an answer."""

import asyncio

from pydantic import BaseModel, ConfigDict, Field

from ..errors import JsonResponse
from ..markdown import render
from ..request_body import RequestBody
from .dependencies import TenantDep, routes

router = routes("markdown")


class MarkdownRequest(RequestBody):
    """A text in Markdown."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "**Day 1**: the Forbidden City"}]})

    text: str = Field(max_length=100_000)


class HtmlView(BaseModel):
    """The text as HTML: without scripts, styles, images and anything else that acts."""

    html: str = Field(examples=["<p><strong>Day 1</strong>: the Forbidden City</p>\n"])


@router.post("/api/markdown", response_model=HtmlView)
async def markdown(body: MarkdownRequest, _: TenantDep) -> JsonResponse:
    """Render a text; a list of tasks has its answers rendered with `html=true`."""
    return JsonResponse({"html": await asyncio.to_thread(render, body.text)})
