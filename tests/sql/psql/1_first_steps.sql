-- What somebody does who sees the server for the first time.
CREATE JOB hello SCHEDULE CRON '0 3 * * *' AS NOOP;
SHOW CREATE JOB hello \gx
SELECT job_name FROM sys.jobs;
ALTER JOB hello SET SCHEDULE CRON '30 3 * * *';
PAUSE JOB hello;
RESUME JOB hello;
CREATE JOB hello SCHEDULE CRON '0 3 * * *' AS NOOP;
DROP JOB hello;
DROP JOB IF EXISTS hello;
SELECT count(*) FROM sys.jobs;
