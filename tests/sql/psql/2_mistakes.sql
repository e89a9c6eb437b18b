-- psql draws a caret where the mistake is.
CREATE JOB hello SCHEDULE CRON '61 * * * *' AS NOOP;
CREATE JOB hello
    SCHEDUL CRON '* * * * *' AS NOOP;
CRATE JOB hello;
SELECT nope FROM sys.jobs;
SELECT * FROM sys.nope;
SELECT 'Zoë', nope FROM sys.jobs;
DROP JOB nothing;
INSERT INTO sys.jobs VALUES (1);
-- What was answered before a mistake stays answered.
SELECT 1 \; SELECT FROM WHERE;
\errverbose
