import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
import http.client, http.server, ssl, sys, threading
from segue.chaos.traps import Network

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
served.load_cert_chain("cert.pem", "key.pem")
server.socket = served.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
network = Network()
network.install()
client = http.client.HTTPSConnection(*server.server_address, context=ssl._create_unverified_context())
client.connect()
setattr(network, sys.argv[1], True)
try:
    client.request("GET", "/")
    print(client.getresponse().status)
except OSError as error:
    print(type(error).__name__, network.hung)
"""
CERTIFICATE = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"


@pytest.mark.parametrize(
    ("fault", "said"), [("silent", "TimeoutError True"), ("reset", "ConnectionResetError False"), ("none", "204")]
)
def test_an_answer_over_https_is_lost_too(fault: str, said: str, tmp_path: Path) -> None:
    subprocess.run(CERTIFICATE.split(), cwd=tmp_path, check=True, capture_output=True)
    ran = subprocess.run(
        [sys.executable, "-c", ASK, fault], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout.strip() == said, ran.stderr
