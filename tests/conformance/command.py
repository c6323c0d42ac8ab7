"""The command that the suite starts for each of its servers: it hands the address to the process of the tests.

`python command.py PORT URL` ends with 1 and the errors if there are any.
"""

import json
import os
import socket
import sys

context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
asked = {"url": sys.argv[2], "scenario": os.environ["MCP_CONFORMANCE_SCENARIO"], "given": context}
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(json.dumps(asked).encode() + b"\n")
    errors = json.loads(connection.makefile().read())
sys.stderr.write("\n".join(errors))
sys.exit(bool(errors))
