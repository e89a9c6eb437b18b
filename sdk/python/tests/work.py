"""A worker for tests: writes the payload of each message that it has done to a file.

    work.py QUEUE FILE [--until-idle]

A payload {"do": …} asks for something else than success: "retry", "fail", "raise", "block".
"""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from punctual import Client, Fail, Retry, Worker  # noqa: E402

queue, path = sys.argv[1], sys.argv[2]
worker = Worker(Client(), queue, concurrency=4, lease=float(os.environ.get("LEASE", "2")), wait=1.0)
lock, last = threading.Lock(), [time.monotonic()]


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
        time.sleep(3 * worker.lease_seconds)
    with lock, open(path, "a") as done:
        done.write(f"{message.payload['n']} {message.attempt} {message.fence}\n")
    last[0] = time.monotonic()
    return {"n": message.payload["n"]}


@worker.action("greet")
async def greet(message):
    with lock, open(path, "a") as done:
        done.write(f"{message.payload['n']} {message.attempt} {message.fence}\n")
    return "hello"


if "--until-idle" in sys.argv:
    def watch():
        while time.monotonic() - last[0] < 6:
            time.sleep(0.2)
        worker.stop()

    threading.Thread(target=watch, daemon=True).start()
worker.run()
