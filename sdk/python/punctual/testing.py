"""Try handlers without a server.

    from punctual.testing import deliver

    outcome = deliver(worker, {"action": "welcome", "to": "ann@example.com"})
    assert outcome.kind == "done"
"""

from __future__ import annotations

import uuid
from typing import Any

from .client import Lease
from .worker import Message, Outcome, Worker, _outcomes


def message(payload: Any, **fields: Any) -> Message:
    """A message as a handler gets it."""
    known = {"id": str(uuid.uuid4()), "fence": 1, "queue": "test", "payload": payload, **fields}
    return Message(Lease.of(known))


def deliver(worker: Worker, payload: Any, **fields: Any) -> Outcome:
    """Calls the handler of a message, and answers what the worker would report."""
    given = message(payload, **fields)
    outcome = _outcomes(worker._handler_of(given), [given])[0]
    if given.output:
        outcome.fields["output"] = given.output
    return outcome
