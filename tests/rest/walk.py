"""The way of a job through a generated client: URL and key are the arguments."""

import sys
import time

from punctual_client import AuthenticatedClient
from punctual_client.api.executions import get_execution, get_logs
from punctual_client.api.jobs import create_job, delete_job, get_job, trigger_job
from punctual_client.models import Accepted, ExternalPayload, Execution, JobCreated, JobSpec, JobType

url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key)

spec = JobSpec(
    name="greeter",
    job_type=JobType.MANUAL,
    payload=ExternalPayload(command="/bin/echo", arguments=["hello"]),
)
made = create_job.sync(client=client, body=spec)
assert isinstance(made, JobCreated), made

accepted = trigger_job.sync("greeter", client=client)
assert isinstance(accepted, Accepted), accepted

deadline = time.monotonic() + 60
while True:
    execution = get_execution.sync(str(accepted.execution_id), client=client)
    assert isinstance(execution, Execution), execution
    if execution.status not in ("PENDING", "QUEUED", "RUNNING") or time.monotonic() > deadline:
        break
    time.sleep(0.05)

logs = get_logs.sync(str(accepted.execution_id), client=client)
shown = get_job.sync("greeter", client=client)
assert shown.job_id == made.job_id and shown.payload.command == "/bin/echo", shown

assert delete_job.sync_detailed("greeter", client=client).status_code == 204
assert get_job.sync_detailed("greeter", client=client).status_code == 404
print("created", "triggered", execution.status, logs.strip(), "deleted")
