"""Compression of stored state: gzip, whose CRC-32 tells of every changed byte."""

import zlib


class Undecodable(Exception):
    """Stored bytes are not what was written; the message names the symptom."""


GZIP = "+gzip"
"""Ends the type of a value that is stored compressed."""
_LEVEL = 6
_GZIP_BITS = 31


def compressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """The type and bytes of a value as they are stored; what is compressed already, or nothing, stays as it is."""
    if kind == "null" or kind.endswith(GZIP):
        return kind, data
    return kind + GZIP, zlib.compress(data, _LEVEL, _GZIP_BITS)


def decompressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """The type and bytes of a stored value as they were before they were compressed.

    Raises:
        Undecodable
    """
    if not kind.endswith(GZIP):
        return kind, data
    try:
        return kind.removesuffix(GZIP), zlib.decompress(data, _GZIP_BITS)
    except zlib.error as error:
        raise Undecodable("its bytes have changed since they were stored") from error
