"""A migration in one transaction, as psycopg makes it: prints what tests/it/sql/drivers.rs expects."""

import sys

import psycopg

address, key = sys.argv[1:]
host, port = address.rsplit(":", 1)


def count(connection):
    return connection.execute("SELECT count(*) FROM sys.jobs").fetchone()[0]


with psycopg.connect(
    host=host, port=port, user="admin", dbname="default", password=key, autocommit=True
) as connection:
    with connection.transaction():
        for number in range(100):
            after = f"DEPENDS ON step{number - 1}" if number else ""
            connection.execute(f"CREATE JOB step{number} SCHEDULE EVERY 1 DAY {after} AS NOOP")
        print("inside", count(connection))
    print("committed", count(connection))
    with connection.transaction() as transaction:
        for number in reversed(range(100)):
            connection.execute(f"DROP JOB step{number}")
        raise psycopg.Rollback(transaction)
    print("rolled back", count(connection))
    try:
        with connection.transaction():
            connection.execute("ALTER JOB step0 SET PRIORITY = 9")
            connection.execute("DROP JOB step99")
            connection.execute("DROP JOB step0")
    except psycopg.Error as error:
        print("refused", error.sqlstate)
    print("kept", count(connection))
    # The name is taken by another client before COMMIT.
    with psycopg.connect(
        host=host, port=port, user="admin", dbname="default", password=key, autocommit=True
    ) as other:
        try:
            with connection.transaction():
                connection.execute("CREATE JOB first AS NOOP")
                connection.execute("CREATE JOB second AS NOOP")
                other.execute("CREATE JOB second AS NOOP")
        except psycopg.Error as error:
            print("overtaken", error.sqlstate)
    row = connection.execute("SELECT job_name FROM sys.jobs WHERE job_name = 'first'").fetchone()
    print("first", row)
    with connection.transaction():
        for number in reversed(range(100)):
            connection.execute(f"DROP JOB step{number}")
    print("dropped", count(connection))
