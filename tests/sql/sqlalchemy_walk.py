"""SQLAlchemy with psycopg 3: connects, asks in a block with a savepoint, and reflects a table."""

import sys

from sqlalchemy import MetaData, Table, create_engine, inspect, select, text
from sqlalchemy.engine import URL

address, key = sys.argv[1:]
host, port = address.rsplit(":", 1)
engine = create_engine(
    URL.create(
        "postgresql+psycopg",
        username="admin",
        password=key,
        host=host,
        port=int(port),
        database="default",
    )
)
with engine.connect() as connection:
    print("connected", connection.execute(text("SELECT 1")).scalar_one())
    with connection.begin_nested():
        print("nested", connection.execute(text("SELECT 2")).scalar_one())
    connection.rollback()
with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
    connection.execute(text("CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP"))
inspector = inspect(engine)
print("schemas", "sys" in inspector.get_schema_names())
print("tables", "jobs" in inspector.get_table_names(schema="sys"))
columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("jobs", "sys")}
print("columns", columns["job_name"], columns["job_uuid"])
print("keys", inspector.get_pk_constraint("jobs", "sys")["constrained_columns"])
print("indexes", inspector.get_indexes("jobs", "sys"), inspector.get_foreign_keys("jobs", "sys"))
jobs = Table("jobs", MetaData(), schema="sys", autoload_with=engine)
with engine.connect() as connection:
    rows = connection.execute(select(jobs.c.job_name).where(jobs.c.job_name == "hello")).all()
    print("rows", rows)
