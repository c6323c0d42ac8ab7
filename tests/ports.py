"""Ports and sockets of servers on this machine."""

import random
import socket

BELOW = 32_000
"""Connections are given ports from 32,768 on, so that none takes one of these before its server starts."""


def listening(port: int = 0) -> socket.socket:
    """A socket for a server that runs here; any free port unless one is given.

    It knows that its protocol is TCP, which `create_server` leaves open. Only then does asyncio send each piece
    at once, rather than when the client has acknowledged the one before, which takes it 40 ms.
    """
    return socket.socket(fileno=socket.create_server(("127.0.0.1", port)).detach())


def free_port() -> int:
    """A port that nothing listens on."""
    while True:
        port = random.SystemRandom().randrange(10_000, BELOW)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
