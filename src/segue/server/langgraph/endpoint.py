"""The routes of LangGraph's server API while a service has graphs, and what runs in the background for them."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

from ...core.errors import DatabaseUnavailable
from ...core.graph_objects import GraphObject
from ...core.records import Json
from ...runtime.graph_calls import CallLedger
from ...runtime.graph_runs import Rows
from ..run import logger
from ..service import Service
from ..tenants import Tenant
from . import assistants, crons, runs, store, stream, threads
from .agents import agent_graph
from .api import NAMESPACE, Call, Readers, Refusal, Served, route
from .graphs import GraphCatalogue, load_sources

CRON_SECONDS = 1.0
"""Seconds between two looks for crons that are due."""


async def ok(request: Request) -> JSONResponse:
    return JSONResponse({"ok": True})


async def info(call: Call) -> Json:
    flags = {"assistants": True, "crons": True, "langsmith": False}
    return {"version": version("segue"), "langgraph_py_version": version("langgraph"), "flags": flags}


ROUTES = [
    Route("/ok", ok),
    route("GET", "/info", info),
    *assistants.ROUTES,
    *crons.ROUTES,
    *runs.ROUTES,
    *stream.ROUTES,
    *threads.ROUTES,
    *store.ROUTES,
    WebSocketRoute("/threads/{thread_id}/stream/events", stream.serve_socket),
]


@asynccontextmanager
async def serving_graphs(application: FastAPI, service: Service, path: Path) -> AsyncIterator[None]:
    """Offer the graphs of a `langgraph.json`, and the agents, through LangGraph's server API."""
    sources = load_sources(path)
    ledger = CallLedger(service.app.database)
    catalogue = GraphCatalogue(sources, partial(agent_graph, service), ledger, lambda: service.agents)
    served = application.state.langgraph = Served(service.app.graph_runs(catalogue), catalogue, Readers())
    service.drains.append(served.runs.drain)
    application.router.routes[:0] = ROUTES
    background = [asyncio.create_task(_begin_crons(service, served), name="crons")]
    if service.settings.resume:
        background.append(asyncio.create_task(served.runs.sweep(), name="graph runs"))
    try:
        yield
    finally:
        for each in ROUTES:
            application.router.routes.remove(each)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await served.runs.drain(service.settings.drain_seconds)
        await asyncio.to_thread(ledger.close)


# Crons.


async def _begin_crons(service: Service, served: Served) -> None:
    """Begin the runs that are due, until cancelled."""
    while True:
        try:
            for cron in await served.runs.tables.read(lambda rows: rows.of_status("cron", "enabled")):
                if cron.body["due"] is not None and cron.body["due"] <= time.time():
                    await _begin_cron(service, served, cron)
        except Exception:  # noqa: BLE001  logged with its trace, and tried again
            logger.exception("crons were not looked for")
        await asyncio.sleep(CRON_SECONDS)


async def _begin_cron(service: Service, served: Served, cron: GraphObject) -> None:
    """Begin the run of a cron that is due, once, whichever process does it; one that cannot begin is left out."""
    scope = {"type": "http", "method": "POST", "headers": [], "segue_count_chat": lambda: None, "path_params": {}}
    name = cron.owner.removesuffix(":")
    tenant = Tenant(name, roles=frozenset() if name else None, is_one_person=not name)
    call = Call(service, served.runs, served.graphs, served.readers, Request(scope), tenant)
    run_id = str(uuid.uuid5(NAMESPACE, f"{cron.object_id} {cron.body['due']}"))
    due = None
    try:
        due = crons.next_due(cron.body, max(cron.body["due"], time.time() - 1.0))
        given = runs.NewRun(**cron.body["payload"], on_completion=cron.body["on_run_completed"])
        await runs.begin(call, cron.thread_id or None, given, given.modes, run_id=run_id)
    except DatabaseUnavailable:
        raise
    except Refusal as refused:
        logger.warning("cron did not begin", extra={"cron_id": cron.object_id, "why": refused.detail})
    except Exception:  # noqa: BLE001  logged with its trace: the crons after it begin all the same
        logger.exception("cron did not begin", extra={"cron_id": cron.object_id})

    def work(rows: Rows) -> None:
        stored = rows.get("cron", cron.object_id)
        if stored is not None and stored.body["due"] == cron.body["due"]:
            rows.put(replace(stored, body={**stored.body, "due": due}))

    await served.runs.tables.write(work)
