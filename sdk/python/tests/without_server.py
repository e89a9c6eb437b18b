"""Handlers are tried without a server: exits with an error if an outcome differs."""

import os
import sys
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from punctual import Client, Fail, Retry, Worker  # noqa: E402
from punctual.testing import deliver, message  # noqa: E402

worker = Worker(Client("http://127.0.0.1:1"), "tasks")


@dataclass
class Welcome:
    to: str


@worker.action("welcome", payload=Welcome)
def welcome(given):
    given.log.info("to %s", given.payload.to)
    return {"sent": given.payload.to, "attempt": given.attempt}


@worker.handler
def other(given):
    raise {"retry": Retry("later", after=5), "fail": Fail("no")}.get(given.payload, KeyError("x"))


done = deliver(worker, {"action": "welcome", "to": "ann"}, attempt=2)
assert (done.kind, done.fields["result"]) == ("done", {"sent": "ann", "attempt": 2}), done
assert done.fields["output"] == "INFO to ann\n", done
unfit = deliver(worker, {"action": "welcome", "for": "ann"})
assert (unfit.kind, unfit.fields["is_permanent"]) == ("failed", True), unfit
assert deliver(worker, "retry").fields == {"error": "later", "delay_seconds": 5}
assert deliver(worker, "fail").fields == {"error": "no", "is_permanent": True}
assert deliver(worker, "?").fields == {"error": "KeyError: 'x'"}
assert message({}, workspace="acme").workspace == "acme"
print("ok")
