"""What the clients were sent: frames, and whether any was missing."""

from collections.abc import Iterator
from dataclasses import dataclass

from .clients import Client


@dataclass
class Sent:
    """The body of an answer."""

    status: int
    frames: list[tuple[int, bytes]]
    """Each with the place in the connection's bytes where it ends."""
    whole: bool
    """Whether the server said that this is all."""

    @property
    def seqs(self) -> list[int]:
        """The numbers of the durable events."""
        named = [frame.split(b"\n", 1)[0] for _, frame in self.frames if frame.startswith(b"id: ")]
        return [int(name.rpartition(b":")[2]) for name in named]

    @property
    def done(self) -> int:
        return sum(frame.startswith(b'data: {"type":"done"') for _, frame in self.frames)


def sent_to(client: Client) -> Sent:
    """Take an answer apart: its head, its chunks, their frames."""
    raw = bytes(client.raw)
    head, blank, _ = raw.partition(b"\r\n\r\n")
    if not blank:
        return Sent(0, [], False)
    chunks = [*_chunks(raw, len(head) + 4)]
    frames = [(end, chunk) for end, chunk in chunks if chunk]
    broken = [chunk for _, chunk in frames if not chunk.endswith(b"\n\n") or chunk.count(b"\n\n") > 1]
    if broken:
        raise RuntimeError(f"a chunk is not one frame: {broken[0]!r}")
    return Sent(int(head.split()[1]), frames, bool(chunks) and not chunks[-1][1])


def _chunks(raw: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """The whole chunks and where each ends; the last one of a body is empty."""
    while (line := raw.find(b"\r\n", start)) > 0:
        size = int(raw[start:line], 16)
        end = line + 2 + size + 2
        if end > len(raw):
            return
        yield end, raw[line + 2 : end - 2]
        start = end


def recorded(client: Client) -> list[tuple[float, str]]:
    """A client's frames, and how many seconds after the first byte each was there."""
    times = iter(client.read)
    after, size = next(times)
    found = []
    for end, frame in sent_to(client).frames:
        while size < end:
            after, size = next(times)
        found.append((after, frame.decode("ascii")))
    return found
