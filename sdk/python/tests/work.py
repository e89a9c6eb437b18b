"""A worker for tests: writes the number of each message that it has done to a file.

    work.py QUEUE FILE [--until-idle]

A payload {"do": …} selects another outcome than success, see ../../conformance.json.
"""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from punctual import Client, Fail, Retry, Worker  # noqa: E402

queue, path = sys.argv[1], sys.argv[2]
lease = float(os.environ.get("LEASE", "2"))
worker = Worker(Client(), queue, concurrency=4, lease=lease, wait=1.0)
lock, last = threading.Lock(), [time.monotonic()]


def note(message):
    with lock, open(path, "a") as done:
        done.write(f"{message.payload['n']} {message.attempt} {message.fence}\n")
    last[0] = time.monotonic()


@worker.handler
def handle(message):
    last[0] = time.monotonic()
    wish = message.payload.get("do") if isinstance(message.payload, dict) else None
    if wish == "retry" and message.attempt < 3:
        raise Retry("not yet", after=0)
    if wish == "fail":
        raise Fail("never")
    if wish == "raise":
        raise RuntimeError("broken")
    if wish == "block":
        time.sleep(3 * lease)
    if wish == "log":
        message.log.info("half way")
        message.progress({"percent": 50})
    if wish == "slow":
        message.extend(60)
        time.sleep(5 * lease)
    if wish == "large":
        return "x" * (1 << 20)
    note(message)
    return {"n": message.payload["n"]}


@worker.action("greet")
async def greet(message):
    note(message)
    return "hello"


@worker.batch("batch", max=10)
def batch(messages):
    for message in messages:
        note(message)
    return [Fail("odd") if it.payload["n"] % 2 else "even" for it in messages]


if "--until-idle" in sys.argv:
    def watch():
        while time.monotonic() - last[0] < 3 * lease + 2:
            time.sleep(0.2)
        worker.stop()

    threading.Thread(target=watch, daemon=True).start()
worker.run()
