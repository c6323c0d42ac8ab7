"""An MCP server on stdio with one tool, whose effects go to a file: `python mcp_server.py FILE`.

It speaks the protocol without the SDK, so that it starts in no time.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

_SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
_TOOL = {"name": "post", "description": "Post a letter; twice would be wrong.", "inputSchema": _SCHEMA}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": _answer(request, sys.argv[1])}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


def _answer(request: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    match request["method"]:
        case "initialize":
            version, about = request["params"]["protocolVersion"], {"name": "post office", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [_TOOL]}
        case "tools/call":
            label = request["params"]["arguments"]["label"]
            for moment in ("start", "effect"):
                _note(path, moment, label)
            return {"content": [{"type": "text", "text": f"posted {label}"}]}
    return {}


def _note(path: str, moment: str, label: str) -> None:
    line = {"moment": moment, "kind": "once", "tool": "post", "label": label, "pid": os.getpid(), "remote": True}
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, json.dumps(line).encode() + b"\n")
    os.fsync(handle)
    os.close(handle)


if __name__ == "__main__":
    main()
