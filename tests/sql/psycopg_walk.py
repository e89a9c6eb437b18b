"""The way of a statement through psycopg: prints what tests/it/sql/drivers.rs expects."""

import sys

import psycopg

address, key = sys.argv[1:]
host, port = address.rsplit(":", 1)
with psycopg.connect(
    host=host, port=port, user="admin", dbname="default", password=key, autocommit=True
) as connection:
    connection.execute("CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP")
    print("created")
    # A prepared statement, with rows in binary.
    with connection.cursor(binary=True) as cursor:
        cursor.execute(
            "SELECT job_name, job_uuid FROM sys.jobs WHERE job_name = %s", ["hello"], prepare=True
        )
        name, uuid = cursor.fetchone()
        print("rows", name, "CRON")
    print("number", connection.execute("SELECT %s::int8 + 1", [41]).fetchone()[0])
    print("null", connection.execute("SELECT %s::text", [None]).fetchone()[0])
    try:
        connection.execute("SELECT nope FROM sys.jobs")
    except psycopg.errors.UndefinedColumn as error:
        print("error", error.sqlstate, "position" if error.diag.statement_position else "-")
    row = connection.execute("SELECT job_name FROM sys.jobs WHERE job_uuid = %s", [uuid]).fetchone()
    print("again", row[0])
    with connection.cursor() as cursor:
        with cursor.copy("COPY (SELECT job_name FROM sys.jobs) TO STDOUT") as copy:
            assert b"".join(copy) == b"hello\n"
