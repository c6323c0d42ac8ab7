import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
import http.client, http.server, ssl, sys, threading
from segue.testing.chaos.traps import Network

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
CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
    "-keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate and its key."""
    folder = tmp_path_factory.mktemp("certified")
    subprocess.run(CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"), [("silent", "TimeoutError True"), ("reset", "ConnectionResetError False"), ("none", "204")]
)
def test_an_answer_over_https_is_lost_too(fault: str, said: str, certified: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ASK, fault], cwd=certified, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout.strip() == said, ran.stderr
