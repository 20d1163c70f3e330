"""What is behind HTTP: where it is, how it may be asked, and an encoder that is asked for vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from rbench.schema.common import Checked, Positive


class Served(Checked):
    """A server, and how it may be asked."""

    url: str
    """Where requests are posted. `${NAME}` stands for an environment variable."""
    headers: dict[str, str] = {}
    """Sent with each request. `${NAME}` stands for an environment variable, so that no secret is in a file."""
    concurrency: Positive = 1
    """Most requests under way at once."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that a request may take."""
    retries: Annotated[int, Field(ge=0)] = 3
    """How often a request is sent again that failed by the connection, by time, or with status 408, 425, 429 or 5xx."""
    rate: Annotated[float, Field(gt=0)] | None = None
    """Most requests a second; None: no limit."""

    COSMETIC = frozenset({"url", "headers", "concurrency", "timeout", "retries", "rate"})
    # Where something runs and how fast it may be asked does not decide what it answers.
    CREDENTIALS: ClassVar[str] = "`headers`"
    """Where a file says who asks, for messages."""

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        if not url.startswith(("http://", "https://", "${")):
            raise ValueError("a URL starts with http:// or https://, or is that of an environment variable, ${NAME}")
        return url


class Embeddings(Served):
    """An encoder behind an endpoint that answers as OpenAI's `/v1/embeddings` does: texts in, a vector for each out."""

    model: str
    """The name of the model, as it is sent."""
    dimensions: Positive | None = None
    """How many numbers a vector has, for models that can give fewer than all; None: nothing is said of it."""
    key: str | None = None
    """The name of the environment variable with the key, which is sent as `Authorization: Bearer`. None: no key."""
    batch_size: Positive = 64
    """Most texts of one request."""
    encoding: Literal["float", "base64"] = "float"
    """How vectors come: as numbers, or as the bytes of float32, which are a quarter as long."""
    version: str = ""
    """Any text. Another one has other keys: write one whenever the provider has put other weights behind the name."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.001
    """How far from 1 the cosine of two vectors of the same text may be, and the ratio of their lengths."""

    COSMETIC = frozenset({"headers", "key", "batch_size", "encoding", "tolerance"} | Served.COSMETIC - {"url"})
    # Of the same model another server may have other weights, so the URL stays in keys.
    OPTIONAL = frozenset({"dimensions", "version"})
    CREDENTIALS = "`key` and `headers`"

    def wrong(self) -> Iterator[str]:
        if self.key is not None and not re.fullmatch(r"[A-Za-z_]\w*", self.key, re.ASCII):
            yield "`key` is the name of an environment variable, such as OPENAI_API_KEY, and never the key itself"
        if any(name.lower() == "authorization" for name in self.headers) and self.key is not None:
            yield "`key` and the header Authorization say the same; leave one of them out"
