"""The route of AG-UI: a run of an agent as a stream of the protocol's events."""

from fastapi.responses import StreamingResponse

from ..ag_ui.bodies import RunInput
from ..ag_ui.runs import begin
from ..errors import not_found
from ..protocols.ag_ui import frames
from ..sse.stream import EventStream
from .chat import task_headers
from .dependencies import CONFLICT, MODEL_DOWN, KeyDep, ServiceDep, TenantDep, routes

router = routes("ag-ui")
_STREAM = {"description": "Server-sent events of AG-UI 1.0.", "content": {"text/event-stream": {}}}


@router.post("/ag-ui/{agent_id}", response_class=StreamingResponse, responses={200: _STREAM, **CONFLICT, **MODEL_DOWN})
async def run(agent_id: str, body: RunInput, service: ServiceDep, tenant: TenantDep, key: KeyDep) -> EventStream:
    """Run an agent for an AG-UI client; a client that disconnects stops nothing.

    `threadId` is the session. Only the last message is new. A task that waits for a person ends the run with an
    interrupt, which the next run answers in `resume`.
    """
    service.refuse_while_draining()
    if agent_id not in service.app.agents:
        raise not_found("agent", agent_id)
    service.open_stream(tenant)
    try:
        row, after = await begin(service, tenant, agent_id, body, key)
        return EventStream(service, tenant, frames(service, tenant, body, row, after), task_headers(tenant, row))
    except BaseException:
        service.close_stream(tenant)
        raise
