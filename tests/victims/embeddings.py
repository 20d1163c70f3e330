"""What an OpenAI-like `/v1/embeddings` answers, with the vectors of an encoder of this machine; run as a program, a
server of such answers: `python -m tests.victims.embeddings FOLDER` serves the encoder in a folder."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.victims.server import Server

Encode = Callable[[list[str]], Any]


def embeddings(encode: Encode, shuffled: bool = True) -> Callable[[Any], Any]:
    """Answers a request with the vectors (n, dim) that `encode` gives; the entries of `data` come in another order."""

    def answer(body: Any) -> Any:
        texts: list[str] = body["input"]
        rows = np.asarray(encode(texts), np.float32)[:, : body.get("dimensions")]
        data = [{"object": "embedding", "index": i, "embedding": written(row, body)} for i, row in enumerate(rows)]
        tokens = sum(len(text.split()) for text in texts)
        return {
            "object": "list",
            "model": body["model"],
            "data": data[::-1] if shuffled else data,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    return answer


def written(row: np.ndarray[Any, Any], body: Any) -> Any:
    if body.get("encoding_format") == "base64":
        return base64.b64encode(row.astype("<f4").tobytes()).decode()
    return [float(number) for number in row]


def letters(texts: Sequence[str], dim: int = 8) -> Any:
    """Vectors that tell texts from each other by their letters, the same on every machine."""
    rows = [[1 + sum((ord(c) * (i + 3)) % 17 for c in text) % 29 for i in range(dim)] for text in texts]
    return np.array(rows, np.float32) / 29


def main() -> None:
    from rbench import encoders
    from rbench.schema import EncoderSpec

    spec = EncoderSpec(name="served", base="served", pooling="mean")
    encoder = encoders.load(spec, Path(sys.argv[1]))
    server = Server(embeddings(encoder.encode))
    print(server.url, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
