// The way of a job through a client with generated types: URL and key are the arguments.

import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [baseUrl, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

function must<T>(answer: { data?: T; error?: unknown; response: Response }): T {
    if (answer.data === undefined) {
        throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`);
    }
    return answer.data;
}

const made = must(
    await client.POST("/v1/jobs", {
        body: {
            name: "greeter",
            job_type: "MANUAL",
            payload: { command: "/bin/echo", arguments: ["hello"] },
        },
    }),
);
const job = { params: { path: { job_id: made.job_id } } };

const accepted = must(await client.POST("/v1/jobs/{job_id}/trigger", job));
const run = { params: { path: { execution_id: accepted.execution_id } } };

const deadline = Date.now() + 60_000;
let execution = must(await client.GET("/v1/executions/{execution_id}", run));
while (["PENDING", "QUEUED", "RUNNING"].includes(execution.status) && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    execution = must(await client.GET("/v1/executions/{execution_id}", run));
}

const logs = must(
    await client.GET("/v1/executions/{execution_id}/logs", { ...run, parseAs: "text" }),
);

const deleted = await client.DELETE("/v1/jobs/{job_id}", job);
const gone = await client.GET("/v1/jobs/{job_id}", job);
if (deleted.response.status !== 204 || gone.response.status !== 404) {
    throw new Error(`${deleted.response.status}, then ${gone.response.status}`);
}
console.log("created", "triggered", execution.status, logs.trim(), "deleted");
