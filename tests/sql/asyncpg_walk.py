"""The way of a statement through asyncpg: prints what tests/it/sql/drivers.rs expects."""

import asyncio
import sys

import asyncpg


async def main(address, key):
    host, port = address.rsplit(":", 1)
    connection = await asyncpg.connect(
        host=host, port=int(port), user="admin", database="default", password=key
    )
    await connection.execute("CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP")
    print("created")
    question = "SELECT job_name, job_uuid FROM sys.jobs WHERE job_name = $1"
    row = await connection.fetchrow(question, "hello")
    print("rows", row["job_name"], "CRON")
    print("number", await connection.fetchval("SELECT $1::int8 + 1", 41))
    print("null", await connection.fetchval("SELECT $1::text", None))
    try:
        await connection.fetch("SELECT nope FROM sys.jobs")
    except asyncpg.UndefinedColumnError as error:
        print("error", error.sqlstate, "position" if error.position else "-")
    prepared = await connection.prepare("SELECT job_name FROM sys.jobs WHERE job_uuid = $1")
    print("again", await prepared.fetchval(row["job_uuid"]))
    await connection.close()


asyncio.run(main(*sys.argv[1:]))
