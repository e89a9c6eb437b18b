"""Requests to a server of Punctual. Only the standard library is used."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Iterable, Optional


class PunctualError(Exception):
    """A request was refused: ``status``, ``code`` and the text of the server."""

    def __init__(self, status: int, code: str, text: str):
        super().__init__(f"{code}: {text}" if code else text)
        self.status = status
        self.code = code


class Stale(PunctualError):
    """The lease has ended: another worker may have the message."""


@dataclass(frozen=True)
class Lease:
    """A leased message."""

    id: str
    fence: int
    payload: Any = None
    queue: str = ""
    workspace: str = ""
    headers: dict = field(default_factory=dict)
    attempt: int = 1
    max_attempts: int = 1
    priority: int = 5
    timeout_seconds: float = 3600.0
    lease_until: str = ""
    correlation_id: str = ""
    ordering_key: Optional[str] = None

    @classmethod
    def of(cls, message: dict) -> "Lease":
        """A message of an answer; fields that this version does not know are left out."""
        known = cls.__dataclass_fields__
        return cls(**{key: value for key, value in message.items() if key in known})


class Client:
    """A server of Punctual. Safe to use from several threads."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 30.0):
        self.url = (url or os.environ.get("PUNCTUAL_SERVER") or "http://127.0.0.1:8630").rstrip("/")
        self.token = token or os.environ.get("PUNCTUAL_TOKEN")
        self.timeout = timeout

    def send(self, queue: str, payload: Any, **fields: Any) -> str:
        """Sends one message and returns its id; it is on disk when this returns.

        Fields: workspace, priority, delay_seconds, process_after, time_to_live_seconds,
        deduplication_key, ordering_key, headers.
        """
        return self.send_many(queue, [{"payload": payload, **fields}])[0]

    def send_many(self, queue: str, messages: Iterable[dict]) -> list:
        """Sends up to 10,000 messages, all of them or none, and returns their ids."""
        answer = self.post(self.path(queue, "messages"), {"messages": list(messages)})
        return [message["id"] for message in answer["messages"]]

    def lease(self, queue: str, max: int = 1, wait: float = 0, lease: Optional[float] = None) -> list:
        """Leases up to ``max`` messages; waits up to ``wait`` seconds until there is one."""
        body: dict = {"max": max, "wait_s": wait}
        if lease is not None:
            body["lease_s"] = lease
        answer = self.post(self.path(queue, "lease"), body, timeout=self.timeout + wait)
        return [Lease.of(it) for it in answer["messages"]]

    def poll(self, session: str, body: dict) -> dict:
        """A poll of a worker's session: results in, messages out."""
        path = f"/v1/workers/{urllib.parse.quote(session, safe='')}/poll"
        return self.post(path, body, timeout=self.timeout + body.get("wait_s", 0))

    def report(self, queue: str, verb: str, messages: Iterable[dict], **fields: Any) -> list:
        """Reports ``ack``, ``nack``, ``fail`` or ``extend`` and returns the result of each."""
        body = {"messages": list(messages), **fields}
        return self.post(self.path(queue, verb), body)["messages"]

    @staticmethod
    def path(queue: str, verb: str) -> str:
        return f"/v1/queues/{urllib.parse.quote(queue, safe='')}/{verb}"

    def post(self, path: str, body: dict, timeout: Optional[float] = None) -> dict:
        # NaN and infinity are no JSON: they are refused here, with the place in the program.
        data = json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(self.url + path, data=data, method="POST")
        request.add_header("Content-Type", "application/json")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=timeout or self.timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise _refused(error) from None


def _refused(error: urllib.error.HTTPError) -> PunctualError:
    try:
        said = json.load(error).get("error", {})
    except (ValueError, AttributeError):
        said = {}
    code, text = said.get("code", ""), said.get("message", error.reason)
    kind = Stale if code == "STALE_FENCE" else PunctualError
    return kind(error.code, code, text)
