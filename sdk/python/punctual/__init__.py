"""Send messages to queues of Punctual, and work on them.

    from punctual import Client, Worker

    client = Client()                       # PUNCTUAL_SERVER and PUNCTUAL_TOKEN
    client.send("emails", {"to": "ann@example.com"}, workspace="acme")

    worker = Worker(client, "emails")

    @worker.handler
    def send_mail(message):
        deliver(message.payload["to"], fence=message.fence)

    worker.run()

A handler that returns is an ack, with what it returns as the result. An exception is a nack:
the message is delivered again as the queue's policy says. ``Retry`` names the delay, ``Fail``
makes it a dead letter at once.
"""

from .client import Client, Lease, PunctualError, Stale
from .worker import Fail, Message, Outcome, Retry, Worker

__all__ = [
    "Client",
    "Fail",
    "Lease",
    "Message",
    "Outcome",
    "PunctualError",
    "Retry",
    "Stale",
    "Worker",
]
