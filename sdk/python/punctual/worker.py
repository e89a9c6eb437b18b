"""A worker: a session with the server, and handlers in threads of their own.

Two threads poll. What the worker holds is kept while a poll is open, so a handler that blocks keeps
its message. Results ride on the next poll; if a poll is open, the next one ends it. A worker that
stops gives back what it has not begun, and lets what runs finish.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import signal
import threading
import time
import uuid
from typing import Any, Callable, Optional, Sequence, Union

from .client import Client, Lease, PunctualError, Stale

log = logging.getLogger("punctual")

ERROR_LENGTH_MAX = 4_000
RESULT_BYTES_MAX = 1 << 20
OUTPUT_LENGTH_MAX = 64 << 10


class Retry(Exception):
    """The message is delivered again, after ``after`` seconds if that is given."""

    def __init__(self, text: str = "", after: Optional[float] = None):
        super().__init__(text)
        self.after = after


class Fail(Exception):
    """No other attempt can succeed: the message becomes a dead letter."""


class Message:
    """A message in the hands of a handler."""

    def __init__(self, lease: Lease, worker: "Optional[Worker]" = None):
        self.id = lease.id
        self.queue = lease.queue
        self.fence = lease.fence
        self.workspace = lease.workspace
        self.payload = lease.payload
        self.headers = lease.headers
        self.attempt = lease.attempt
        self.max_attempts = lease.max_attempts
        self.priority = lease.priority
        self.ordering_key = lease.ordering_key
        self.correlation_id = lease.correlation_id
        #: Set when the lease has ended or the message was cancelled.
        self.cancelled = threading.Event()
        #: When its time limit ends, by ``time.monotonic()``.
        self.deadline = time.monotonic() + lease.timeout_seconds
        #: Its texts are the output of the run.
        self.log = logging.Logger("punctual.message", logging.DEBUG)
        self.log.addHandler(_Output(self))
        self._worker, self._output, self._progress, self._extend = worker, [], None, None

    @property
    def action(self) -> Optional[str]:
        """The field ``action`` of the payload, if it has one."""
        return self.payload.get("action") if isinstance(self.payload, dict) else None

    def progress(self, value: Any) -> None:
        """Says how far it is: any JSON value, shown with the message."""
        json.dumps(value, allow_nan=False)
        self._progress = value
        if self._worker:
            self._worker._say(soon=True)

    def extend(self, seconds: float) -> None:
        """Extends the time limit to so many seconds from now, instead of the limit of the queue."""
        self.deadline = time.monotonic() + seconds
        self._extend = seconds
        if self._worker:
            self._worker._say()

    @property
    def output(self) -> str:
        """The last part of the text that was written to :attr:`log`."""
        return "".join(self._output)[-OUTPUT_LENGTH_MAX:]


class _Output(logging.Handler):
    def __init__(self, message: Message):
        super().__init__()
        self.message = message
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.message._output.append(self.format(record) + "\n")


class Outcome:
    """Outcome of a message: ``kind`` is ``done``, ``failed`` or ``released``."""

    def __init__(self, kind: str, **fields: Any):
        self.kind, self.fields = kind, fields

    def __repr__(self) -> str:
        return f"Outcome({self.kind!r}, {self.fields!r})"


def outcome_of(value: Any) -> Outcome:
    """The outcome of what a handler returned or raised."""
    if isinstance(value, Outcome):
        return value
    if isinstance(value, Fail):
        return Outcome("failed", error=str(value)[:ERROR_LENGTH_MAX], is_permanent=True)
    if isinstance(value, Retry):
        delay = {} if value.after is None else {"delay_seconds": value.after}
        return Outcome("failed", error=str(value)[:ERROR_LENGTH_MAX], **delay)
    if isinstance(value, BaseException):
        text = f"{type(value).__name__}: {value}"
        return Outcome("failed", error=text[:ERROR_LENGTH_MAX])
    if value is None:
        return Outcome("done")
    try:
        size = len(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        return Outcome("failed", error=f"the result is no JSON: {error}", is_permanent=True)
    if size > RESULT_BYTES_MAX:
        text = f"the result has {size} bytes; the most are {RESULT_BYTES_MAX}"
        return Outcome("failed", error=text, is_permanent=True)
    return Outcome("done", result=value)


Handler = Callable[[Any], Any]


class _Batch:
    def __init__(self, handle: Handler, most: int):
        self.handle, self.most = handle, most


class Worker:
    """Works on the messages of queues until it is stopped."""

    def __init__(
        self,
        client: Client,
        queue: Union[str, Sequence[str]],
        concurrency: int = 4,
        lease: Optional[float] = None,
        wait: float = 20.0,
        grace: float = 30.0,
        session: Optional[str] = None,
    ):
        if concurrency < 1 or (lease is not None and lease < 1):
            raise ValueError("concurrency and lease must be at least 1")
        self.client, self.session = client, session or str(uuid.uuid4())
        self.queues = [queue] if isinstance(queue, str) else list(queue)
        self.concurrency, self.lease_seconds = concurrency, lease
        self.wait, self.grace = wait, grace
        self._handlers: dict = {}
        self._default: Any = None
        self._stop = threading.Event()
        # Guards all that follows; waited on by the threads that poll.
        self._changed = threading.Condition()
        self._seq = 0
        self._open = 0
        self._reports: list = []
        self._held: dict = {}
        self._news = False
        self._soon_at: Optional[float] = None
        self._state = "RUN"
        self._ended = False

    def handler(self, handle: Handler) -> Handler:
        """The handler of messages that no ``action`` is for."""
        self._default = handle
        return handle

    def action(self, name: str, payload: Optional[type] = None) -> Callable[[Handler], Handler]:
        """The handler of messages whose payload has ``"action": name``. With a class, the payload is
        made of it: ``payload(**fields)`` without ``action``."""

        def register(handle: Handler) -> Handler:
            self._handlers[name] = _typed(handle, payload) if payload else handle
            return handle

        return register

    def batch(self, name: Optional[str] = None, max: int = 100) -> Callable[[Handler], Handler]:
        """A handler of several messages at a time. It returns nothing, or a list with a result,
        :class:`Retry` or :class:`Fail` for each."""

        def register(handle: Handler) -> Handler:
            if name is None:
                self._default = _Batch(handle, max)
            else:
                self._handlers[name] = _Batch(handle, max)
            return handle

        return register

    def stop(self) -> None:
        """Takes no new messages and releases those that were not begun; ``run`` returns when the
        running handlers have ended, or after ``grace`` seconds."""
        self._stop.set()
        self._say()

    def run(self, signals: bool = True) -> None:
        """Works until :meth:`stop`, SIGTERM, SIGINT, or until the server says STOP."""
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self._stop.set())
        self._ended = False
        polls = [threading.Thread(target=self._poll, daemon=True) for _ in range(2)]
        for thread in polls:
            thread.start()
        # A signal handler must not take the lock: it is looked at here.
        while not self._stop.wait(0.1):
            if self._state == "STOP":
                break
        self._stop.set()
        self._drain()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for thread in polls:
            thread.join()

    def _drain(self) -> None:
        until = time.monotonic() + self.grace
        with self._changed:
            self._news = True
            self._changed.notify_all()
            while self._held and time.monotonic() < until:
                self._changed.wait(0.1)
            for lease, message, _ in self._held.values():
                message.cancelled.set()
                self._reports.append((lease, Outcome("released")))
            self._held.clear()
            self._changed.notify_all()
            while self._reports and time.monotonic() < until + 10:
                self._changed.wait(0.1)

    def _say(self, soon: bool = False) -> None:
        with self._changed:
            if not soon:
                self._news = True
            elif self._soon_at is None:
                self._soon_at = time.monotonic() + 1
            self._changed.notify_all()

    def _is_due(self) -> bool:
        """Whether a poll is to be sent: none is open, or there is something to say."""
        if self._open == 0:
            return True
        is_soon = self._soon_at is not None and time.monotonic() >= self._soon_at
        return self._open < 2 and bool(self._reports or self._news or is_soon)

    def _poll(self) -> None:
        while True:
            with self._changed:
                while not self._is_due() and not self._ended:
                    self._changed.wait(0.2)
                if self._ended and not self._reports:
                    return
                body, reports = self._body()
                self._open += 1
            try:
                answer = self._send(body)
            except Stale:
                self._lost(body, reports)
                answer = None
            except (PunctualError, OSError, ValueError) as error:
                self._refused(error, reports)
                answer = None
            with self._changed:
                self._open -= 1
                self._changed.notify_all()
            if answer is not None:
                self._take(answer)

    def _body(self) -> tuple:
        self._seq += 1
        is_open = not self._stop.is_set() and self._state == "RUN"
        free = self.concurrency - len(self._held)
        body: dict = {
            "seq": self._seq,
            "want": max(free, 0) if is_open else 0,
            "queues": self.queues,
            "wait_s": self.wait if is_open else min(self.wait, 1.0),
        }
        if self.lease_seconds is not None:
            body["lease_s"] = self.lease_seconds
        reports, self._reports = self._reports, []
        self._news, self._soon_at = False, None
        for lease, outcome in reports:
            report = {"id": lease.id, "fence": lease.fence, "queue": lease.queue, **outcome.fields}
            body.setdefault(outcome.kind, []).append(report)
        for lease, message, _ in self._held.values():
            key = {"id": lease.id, "fence": lease.fence, "queue": lease.queue}
            if message._extend is not None:
                body.setdefault("extend", []).append({**key, "timeout_s": message._extend})
                message._extend = None
            if message._progress is not None:
                key = {**key, "progress": message._progress}
                message._progress = None
            body.setdefault("running", []).append(key)
        return body, reports

    def _send(self, body: dict) -> dict:
        """Sends a poll until it is answered: one that is sent again has the same number."""
        pause = 0.1
        while True:
            try:
                return self.client.poll(self.session, body)
            except (PunctualError, OSError) as error:
                is_final = isinstance(error, PunctualError) and error.status < 500
                if is_final and error.status != 429:
                    raise
                if self._ended and pause > 2:
                    raise
                log.warning("poll not answered, sending it again: %s", error)
                self._wait_or_end(pause)
                pause = min(pause * 2, 5.0)

    def _wait_or_end(self, pause: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended, pause)

    def _lost(self, body: dict, reports: list) -> None:
        """All that a poll named is another worker's by now."""
        named = {it["id"] for it in body.get("running", [])}
        for lease, _ in reports:
            log.warning("message %s was given to another worker", lease.id)
        self._cancel(named)

    def _refused(self, error: Exception, reports: list) -> None:
        if getattr(error, "code", "") == "WRONG_STATE":
            # It was overtaken by the next poll: its results are sent again.
            log.debug("poll overtaken: %s", error)
            with self._changed:
                self._reports = reports + self._reports
            return
        log.error("poll refused: %s", error)
        self._wait_or_end(1.0)

    def _take(self, answer: dict) -> None:
        self._cancel(answer["cancel"])
        self._state = answer["state"]
        leases = [Lease.of(it) for it in answer["messages"]]
        with self._changed:
            known = [lease for lease in leases if lease.id not in self._held]
            if self._stop.is_set():
                self._reports += [(lease, Outcome("released")) for lease in known]
                self._changed.notify_all()
                return
            begun = [(lease, Message(lease, self)) for lease in known]
            for lease, message in begun:
                self._held[lease.id] = (lease, message, True)
        for group in self._groups(begun):
            threading.Thread(target=self._work, args=(group,), daemon=True).start()

    def _groups(self, begun: list) -> list:
        groups: list = []
        for it in begun:
            handle = self._handler_of(it[1])
            last = groups[-1] if groups else None
            is_same = last and isinstance(handle, _Batch) and last[0] is handle
            if is_same and len(last[1]) < handle.most:
                last[1].append(it)
            else:
                groups.append((handle, [it]))
        return groups

    def _handler_of(self, message: Message) -> Any:
        return self._handlers.get(message.action) or self._default

    def _work(self, group: tuple) -> None:
        handle, begun = group
        outcomes = _outcomes(handle, [message for _, message in begun])
        with self._changed:
            for (lease, message), outcome in zip(begun, outcomes):
                if self._held.pop(lease.id, None) is None:
                    continue
                if message.output and outcome.kind != "released":
                    outcome.fields["output"] = message.output
                self._reports.append((lease, outcome))
            self._changed.notify_all()

    def _cancel(self, ids: Any) -> None:
        with self._changed:
            for id in ids:
                held = self._held.get(id)
                if held:
                    held[1].cancelled.set()


def _typed(handle: Handler, payload: type) -> Handler:
    def made(message: Message) -> Any:
        fields = {key: value for key, value in message.payload.items() if key != "action"}
        try:
            message.payload = payload(**fields)
        except TypeError as error:
            raise Fail(f"the payload does not fit: {error}") from None
        return handle(message)

    return made


def _outcomes(handle: Any, messages: list) -> list:
    """Calls a handler with messages; the outcome of each."""
    if handle is None:
        text = f"no handler for action {messages[0].action!r}"
        return [outcome_of(Fail(text)) for _ in messages]
    is_batch = isinstance(handle, _Batch)
    try:
        result = handle.handle(messages) if is_batch else handle(messages[0])
        if inspect.isawaitable(result):
            result = asyncio.run(_finished(result))
    except (Fail, Retry) as error:
        return [outcome_of(error) for _ in messages]
    except Exception as error:  # whatever the handler raises is its failure
        log.exception("message %s failed", messages[0].id)
        return [outcome_of(error) for _ in messages]
    if not is_batch:
        return [outcome_of(result)]
    results = list(result) if result is not None else [None] * len(messages)
    if len(results) != len(messages):
        text = f"the handler returned {len(results)} results for {len(messages)} messages"
        return [Outcome("failed", error=text) for _ in messages]
    return [outcome_of(it) for it in results]


async def _finished(result: Any) -> Any:
    return await result
