// The way of a statement through node-postgres: prints what tests/it/sql/drivers.rs expects.

import pg from "pg";

const [address, key] = process.argv.slice(2);
const [host, port] = address.split(/:(?=\d+$)/);
const client = new pg.Client({ host, port, user: "admin", database: "default", password: key });
await client.connect();
await client.query("CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP");
console.log("created");
const text = "SELECT job_name, job_uuid FROM sys.jobs WHERE job_name = $1";
// Under a name, so that it is prepared once and bound twice.
await client.query({ name: "one", text, values: ["nothing"] });
const { rows } = await client.query({ name: "one", text, values: ["hello"] });
console.log("rows", rows[0].job_name, "CRON");
const sum = await client.query("SELECT $1::int8 + 1 AS n", [41]);
console.log("number", Number(sum.rows[0].n));
const nothing = await client.query("SELECT $1::text AS n", [null]);
console.log("null", nothing.rows[0].n === null ? "None" : nothing.rows[0].n);
try {
    await client.query("SELECT nope FROM sys.jobs");
} catch (error) {
    console.log("error", error.code, error.position ? "position" : "-");
}
const again = await client.query("SELECT job_name FROM sys.jobs WHERE job_uuid = $1", [rows[0].job_uuid]);
console.log("again", again.rows[0].job_name);
await client.end();
