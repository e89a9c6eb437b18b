@ admin
CREATE JOB extract_daily_data SCHEDULE = '0 1 * * *' AS 'CALL extract_daily_sales()';
CREATE JOB transform_daily_data DEPENDS ON extract_daily_data SCHEDULE = '0 2 * * *' AS 'CALL transform_sales_data()';
CREATE JOB extract_daily_data SCHEDULE = '0 1 * * *' AS 'SELECT 1';
CREATE JOB IF NOT EXISTS extract_daily_data AS 'SELECT 1';
SHOW CREATE JOB transform_daily_data;
ALTER JOB transform_daily_data SET MAX_RETRIES = 1 SET TIMEOUT = 10 MINUTES, PRIORITY = 8 SET DESCRIPTION = 'step 2';
SHOW CREATE JOB transform_daily_data;
-- All of the clauses or none.
ALTER JOB transform_daily_data SET MAX_RETRIES = 2 SET PRIORITY = 11;
ALTER JOB transform_daily_data SET MAX_RETRIES = 2 SET DEPENDS ON nowhere;
ALTER JOB extract_daily_data SET DEPENDS ON transform_daily_data;
SHOW CREATE JOB transform_daily_data;
ALTER JOB transform_daily_data SET STATE = PAUSED;
SHOW JOBS LIKE '%daily\_data';
SHOW JOBS LIKE '%_daily_data';
ALTER JOB transform_daily_data SET STATE = ENABLED;
PAUSE JOB transform_daily_data; RESUME JOB transform_daily_data;
-- The job becomes what the text says; its state stays.
ALTER JOB transform_daily_data SET STATE = DISABLED;
CREATE OR ALTER JOB transform_daily_data SCHEDULE = '30 2 * * *' TIMEZONE = 'America/New_York' AS 'SELECT 2';
SHOW CREATE JOB transform_daily_data;
RECREATE JOB transform_daily_data SCHEDULE = EVERY 1 HOUR AS NOOP;
SHOW CREATE JOB transform_daily_data;
-- The same interval goes on as it began.
ALTER JOB transform_daily_data SET SCHEDULE = EVERY 2 HOURS STARTS '2024-01-01T00:00:00Z';
CREATE OR ALTER JOB transform_daily_data SCHEDULE = EVERY 2 HOURS AS NOOP;
SHOW CREATE JOB transform_daily_data;
ALTER JOB transform_daily_data RENAME TO "Step 2";
ALTER JOB transform_daily_data SET PRIORITY = 1;
ALTER JOB IF EXISTS transform_daily_data SET PRIORITY = 1;
ALTER JOB "Step 2" SET DEPENDS ON extract_daily_data;
DROP JOB extract_daily_data;
DROP JOB extract_daily_data CASCADE;
DROP JOB "Step 2" KEEP HISTORY;
DROP JOB "Step 2";
DROP JOB IF EXISTS "Step 2";
SHOW JOBS;

@ admin
-- What is wrong is told with its place.
CREATE JOB a SCHEDULE = CRON '0 25 * * *' AS NOOP;
CREATE JOB a SCHEDULE = AT '2024-03-10 02:30' TIMEZONE = 'America/New_York' AS NOOP;
CREATE JOB a CONCURRENCY = 0 AS NOOP;
CREATE JOB a TAGS = ('x', 'x') AS NOOP;
CREATE JOB a AS HTTP 'GET ftp://example.org';
CREATE JOB a AS '';
CREATE JOB a RETRY_BACKOFF = 0s AS NOOP;
CREATE JOB a CLASS = QUORUM_REQUIRED QUEUE = slow AS NOOP;
CREATE JOB "" AS NOOP;
CREATE JOB a SCHEDULE = EVERY 1 HOUR STARTS '2025-01-01T00:00:00Z' ENDS '2024-01-01T00:00:00Z' AS NOOP;
INSERT INTO sys.jobs VALUES (1);

@ admin
-- What a statement makes is what the tables show.
CREATE JOB sweep_tables CLASS = LOCAL_SAFE SCHEDULE = '0 2 * * *' AS 'SWEEP ANALYZE';
CREATE JOB poll SCHEDULE = EVERY 5 MINUTES STARTS '2024-01-15T11:00:00Z' MAX_RETRIES = 1 RETRY_BACKOFF = 5s TIMEOUT = 10s PAUSED DESCRIPTION = 'polls' AS CALL poll_it();
SELECT job_name, description, job_class, job_type, job_sql, schedule_kind, cron_expression, interval_seconds, schedule_tz, next_run_time, on_completion, max_retries, retry_backoff_seconds, timeout_seconds, state FROM sys.jobs ORDER BY job_name;
SELECT job_uuid, job_name, job_class, schedule_type, cron_expression, next_run_time, state FROM sys.jobs ORDER BY next_run_time ASC;
SELECT nope FROM sys.jobs;
SELECT nothing FROM sys.jobs;
SELECT * FROM nowhere;
COPY (SELECT job_name FROM sys.jobs ORDER BY 1) TO STDOUT;
