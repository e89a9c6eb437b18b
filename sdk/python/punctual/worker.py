"""A worker: leases messages, runs a handler for each in a pool of threads, and reports.

The lease is extended by a thread of its own, so a handler that blocks keeps its message. A worker
that stops gives back what it has not begun, and lets what runs finish.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue as queues
import signal
import threading
import time
from typing import Any, Callable, Optional

from .client import Client, Lease, PunctualError, Stale

log = logging.getLogger("punctual")


class Retry(Exception):
    """The message is delivered again, after ``after`` seconds if that is given."""

    def __init__(self, text: str = "", after: Optional[float] = None):
        super().__init__(text)
        self.after = after


class Fail(Exception):
    """No other attempt can succeed: the message becomes a dead letter."""


class Message:
    """A message in the hands of a handler."""

    def __init__(self, lease: Lease):
        self.id = lease.id
        self.fence = lease.fence
        self.workspace = lease.workspace
        self.payload = lease.payload
        self.headers = lease.headers
        self.attempt = lease.attempt
        self.priority = lease.priority
        #: Set when the lease has ended or somebody asked for the end of the message.
        self.cancelled = threading.Event()

    @property
    def action(self) -> Optional[str]:
        """The field ``action`` of the payload, if it has one."""
        return self.payload.get("action") if isinstance(self.payload, dict) else None


Handler = Callable[[Message], Any]


class Worker:
    """Works on the messages of a queue until it is stopped."""

    def __init__(
        self,
        client: Client,
        queue: str,
        concurrency: int = 4,
        lease: float = 30.0,
        wait: float = 20.0,
    ):
        if concurrency < 1 or lease < 1:
            raise ValueError("concurrency and lease must be at least 1")
        self.client, self.queue = client, queue
        self.concurrency, self.lease_seconds, self.wait = concurrency, lease, wait
        self._handlers: dict = {}
        self._default: Optional[Handler] = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._held: dict = {}
        self._reports: queues.Queue = queues.Queue()
        self._slots = threading.Semaphore(concurrency)

    def handler(self, handle: Handler) -> Handler:
        """The handler of messages that no ``action`` is for."""
        self._default = handle
        return handle

    def action(self, name: str) -> Callable[[Handler], Handler]:
        """The handler of messages whose payload has ``"action": name``."""

        def register(handle: Handler) -> Handler:
            self._handlers[name] = handle
            return handle

        return register

    def stop(self) -> None:
        """Takes nothing new; ``run`` returns when what runs has ended."""
        self._stop.set()

    def run(self, signals: bool = True) -> None:
        """Works until :meth:`stop`, SIGTERM or SIGINT."""
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        beat = threading.Thread(target=self._extend, daemon=True)
        tell = threading.Thread(target=self._report, daemon=True)
        beat.start()
        tell.start()
        try:
            while not self._stop.is_set():
                self._take()
        finally:
            for _ in range(self.concurrency):
                self._slots.acquire()
            self._reports.put(None)
            tell.join()

    def _take(self) -> None:
        """Leases as many messages as there are free slots, and begins them."""
        self._slots.acquire()
        free = 1
        while free < self.concurrency and self._slots.acquire(blocking=False):
            free += 1
        leases: list = []
        try:
            # A short wait while others run: their slots become free.
            wait = self.wait if free == self.concurrency else min(self.wait, 1.0)
            leases = self.client.lease(self.queue, free, wait, self.lease_seconds)
        except (PunctualError, OSError) as error:
            log.warning("no messages: %s", error)
            self._stop.wait(1.0)
        for _ in range(free - len(leases)):
            self._slots.release()
        for lease in leases:
            if self._stop.is_set():
                self._reports.put(("nack", lease, {"is_unstarted": True}))
                self._slots.release()
                continue
            message = Message(lease)
            with self._lock:
                self._held[lease.id] = (lease, message)
            threading.Thread(target=self._work, args=(lease, message), daemon=True).start()

    def _work(self, lease: Lease, message: Message) -> None:
        try:
            verb, fields = self._handle(message)
        finally:
            with self._lock:
                self._held.pop(lease.id, None)
            self._slots.release()
        self._reports.put((verb, lease, fields))

    def _handle(self, message: Message) -> tuple:
        handle = self._handlers.get(message.action) or self._default
        if handle is None:
            return "fail", {"error": f"no handler for action {message.action!r}"}
        try:
            result = handle(message)
            if inspect.isawaitable(result):
                result = asyncio.run(_finished(result))
            return "ack", {} if result is None else {"result": result}
        except Fail as error:
            return "fail", {"error": str(error)[:4000]}
        except Retry as error:
            delay = {} if error.after is None else {"delay_seconds": error.after}
            return "nack", {"error": str(error)[:4000], **delay}
        except Exception as error:  # whatever the handler raises is its failure
            log.exception("message %s failed", message.id)
            return "nack", {"error": f"{type(error).__name__}: {error}"[:4000]}

    def _report(self) -> None:
        """Sends reports; those that are there at the same time go together."""
        ended = False
        while not ended:
            batch = [self._reports.get()]
            while True:
                try:
                    batch.append(self._reports.get_nowait())
                except queues.Empty:
                    break
            ended = None in batch
            for verb in ("ack", "nack", "fail"):
                items = [it for it in batch if it is not None and it[0] == verb]
                if items:
                    self._send(verb, items)

    def _send(self, verb: str, items: list) -> None:
        reports = [{"id": it.id, "fence": it.fence, **fields} for _, it, fields in items]
        # The lease may end meanwhile; until then, the same report is answered in the same way.
        for pause in (0.1, 0.5, 1.0, 2.0, 5.0, None):
            try:
                results = self.client.report(self.queue, verb, reports)
                for result in results:
                    if result["status"] != 200:
                        log.warning("message %s was given to another worker", result["id"])
                return
            except Stale:
                for report in reports:
                    log.warning("message %s was given to another worker", report["id"])
                return
            except (PunctualError, OSError, TypeError, ValueError) as error:
                if isinstance(error, (TypeError, ValueError)):
                    log.error("a result is no JSON: %s", error)
                    reports = [
                        {"id": it["id"], "fence": it["fence"], "error": f"the result is no JSON: {error}"}
                        for it in reports
                    ]
                    verb = "fail"
                    continue
                if isinstance(error, PunctualError) and error.status < 500 and error.status != 429:
                    log.error("%s was refused: %s", verb, error)
                    return
                if pause is None:
                    log.error("%s could not be reported: %s", verb, error)
                    return
                time.sleep(pause)

    def _extend(self) -> None:
        """Keeps the leases of what runs, three times in each."""
        while True:
            time.sleep(self.lease_seconds / 3)
            with self._lock:
                held = dict(self._held)
            if not held:
                continue
            leases = [{"id": lease.id, "fence": lease.fence} for lease, _ in held.values()]
            try:
                results = self.client.report(
                    self.queue, "extend", leases, lease_s=self.lease_seconds
                )
            except Stale:
                results = [{"id": it["id"], "status": 409} for it in leases]
            except (PunctualError, OSError) as error:
                log.warning("leases could not be extended: %s", error)
                continue
            for result in results:
                if result["status"] != 200 or result.get("cancel"):
                    held[result["id"]][1].cancelled.set()


async def _finished(result: Any) -> Any:
    return await result
