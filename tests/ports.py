"""Ports for servers that must know theirs before they start."""

import random
import socket

BELOW = 32_000
"""Connections are given ports from 32,768 on, so that none takes one of these before its server starts."""


def free_port() -> int:
    """A port that nothing listens on."""
    while True:
        port = random.SystemRandom().randrange(10_000, BELOW)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
