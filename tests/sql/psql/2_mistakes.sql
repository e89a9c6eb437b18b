-- psql draws a caret where the mistake is.
CREATE JOB hello SCHEDULE CRON '61 * * * *' AS NOOP;
CREATE JOB hello
    SCHEDUL CRON '* * * * *' AS NOOP;
CRATE JOB hello;
SELECT nothing FROM sys.jobs;
SELECT * FROM sys.nothing;
SELECT 'Zoë', nothing FROM sys.jobs;
DROP JOB nothing;
INSERT INTO sys.jobs VALUES (1);
-- Every statement of a text is read before the first of them is done.
SELECT 1 \; SELECT FROM WHERE;
\errverbose
