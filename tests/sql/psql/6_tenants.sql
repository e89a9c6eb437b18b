-- A database is a tenant, and each has only its own.
CREATE JOB ours SCHEDULE CRON '0 3 * * *' AS NOOP;
\connect acme
SELECT current_database();
SELECT job_name FROM sys.jobs;
CREATE JOB theirs SCHEDULE CRON '0 3 * * *' AS NOOP;
SELECT job_name FROM sys.jobs;
DROP JOB ours;
\connect default
SELECT job_name FROM sys.jobs;
\connect nowhere
