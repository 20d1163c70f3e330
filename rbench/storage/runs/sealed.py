"""Close a JSON file with a checksum of its bytes, so that every change of the file is noticed.

    {
     "job": ...,
     "check": "0123456789abcdef"
    }

The checksum is the first 16 hex digits of the sha256 of all bytes before its line. It covers bytes, not values, because
some changes of bytes keep what JSON says, and would go on unnoticed into copies. The file stays plain JSON.
"""

from __future__ import annotations

from hashlib import sha256

_OPEN = b"\n}"


def seal(text: str) -> bytes:
    """Return the content of a file: a JSON object with its checksum as the last member.

    Args:
        text: the object, not empty, over several lines as `model_dump_json(indent=1)` writes it.
    """
    body = text.encode().removesuffix(_OPEN)
    return body + _end(body)


def unseal(content: bytes) -> bytes:
    """Return the JSON object without its checksum. Raises ValueError where the checksum is not that of the content."""
    body = content[: -len(_end(b""))]
    if content[len(body) :] != _end(body):
        raise ValueError("its checksum is not that of its content")
    return body + _OPEN


def _end(body: bytes) -> bytes:
    return f',\n "check": "{sha256(body).hexdigest()[:16]}"\n}}\n'.encode()
