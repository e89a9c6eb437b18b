@ admin
-- Several changes of jobs happen at COMMIT, and see those before them in the block.
BEGIN; CREATE JOB extract SCHEDULE CRON '0 3 * * *' AS NOOP; CREATE JOB load SCHEDULE AFTER DEPENDENCIES DEPENDS ON extract AS NOOP; ALTER JOB extract SET PRIORITY = 9; SHOW JOBS; COMMIT; SHOW JOBS;
SELECT job_name, version, priority FROM sys.jobs ORDER BY job_name;
-- A job that is made and removed in one block never was.
BEGIN; CREATE JOB passing AS NOOP; DROP JOB passing; CREATE JOB other AS NOOP; COMMIT; SHOW JOBS LIKE 'passing';
-- ROLLBACK undoes all, and so does a mistake in the middle.
BEGIN; CREATE JOB a AS NOOP; CREATE JOB b AS NOOP; DROP JOB other; ROLLBACK;
BEGIN; CREATE JOB a AS NOOP; CREATE JOB other AS NOOP; CREATE JOB b AS NOOP; COMMIT;
BEGIN; CREATE JOB a AS NOOP; SELECT nonsense; COMMIT;
BEGIN; CREATE JOB a AS NOOP; CREATE JOB b SCHEDULE CRON 'x' AS NOOP; COMMIT;
SELECT job_name, version FROM sys.jobs ORDER BY job_name;
-- Dependencies: of those that stay on what goes, of new jobs in a circle, on jobs that are gone.
BEGIN; CREATE JOB a AS NOOP; DROP JOB extract; ROLLBACK;
BEGIN; DROP JOB load; DROP JOB extract; ROLLBACK;
BEGIN; CREATE JOB a AS NOOP; DROP JOB extract CASCADE PURGE HISTORY; ROLLBACK;
BEGIN; CREATE JOB a AS NOOP; CREATE JOB b DEPENDS ON a AS NOOP; ALTER JOB a SET DEPENDS ON b; COMMIT;
BEGIN; DROP JOB other; CREATE JOB a DEPENDS ON other AS NOOP; COMMIT;
-- Names: a renamed job is found by its new one; no name passes from one job to another.
BEGIN; ALTER JOB other RENAME TO another; ALTER JOB another SET PRIORITY = 1; ALTER JOB other SET PRIORITY = 2; COMMIT;
BEGIN; ALTER JOB other RENAME TO another; ALTER JOB IF EXISTS other SET PRIORITY = 2; COMMIT; SHOW JOBS LIKE '%other';
BEGIN; DROP JOB another; CREATE JOB another AS NOOP; COMMIT;
BEGIN; CREATE JOB a AS NOOP; ALTER JOB another RENAME TO a; COMMIT;
-- What exists is kept, changed or replaced.
BEGIN; CREATE JOB IF NOT EXISTS another AS NOOP; CREATE OR ALTER JOB another PRIORITY = 3 AS NOOP; RECREATE JOB load AS NOOP; COMMIT;
SELECT job_name, version, priority, depends_on IS NULL AS free FROM (SELECT j.*, d.depends_on_job_uuid AS depends_on FROM sys.jobs j LEFT JOIN sys.job_dependencies d ON d.job_uuid = j.job_uuid) ORDER BY job_name;
-- Savepoints keep what was before them.
BEGIN; CREATE JOB a AS NOOP; SAVEPOINT s; CREATE JOB b AS NOOP; DROP JOB another; ROLLBACK TO s; CREATE JOB c AS NOOP; COMMIT; SHOW JOBS;
-- Other changes stay alone.
BEGIN; CREATE JOB d AS NOOP; EXECUTE JOB a; COMMIT;
BEGIN; PAUSE JOB a; CREATE JOB d AS NOOP; COMMIT;
-- A block that only reads changes nothing, however it became one.
START TRANSACTION READ ONLY; SHOW JOBS LIKE 'a'; CREATE JOB d AS NOOP; ROLLBACK;
BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY; EXECUTE JOB a; COMMIT;
BEGIN; SET transaction_read_only = on; RESET ALL; DROP JOB a; ROLLBACK; SHOW transaction_read_only;
BEGIN READ ONLY; SET TRANSACTION READ WRITE; PAUSE JOB a; ROLLBACK;
SET default_transaction_read_only = on; GRANT CREATE JOB TO nobody; BEGIN; SHOW transaction_read_only; PAUSE JOB a; ROLLBACK; BEGIN READ WRITE; PAUSE JOB a; ROLLBACK;
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; SHOW default_transaction_read_only; PAUSE JOB a; RESUME JOB a;
SET TRANSACTION READ ONLY; PAUSE JOB a; RESUME JOB a; SET default_transaction_read_only = maybe;
-- A name of a queue and a circle are refused at their statements.
CREATE QUEUE mail; BEGIN; CREATE JOB mail AS NOOP; ROLLBACK; BEGIN; ALTER JOB a RENAME TO mail; ROLLBACK;
BEGIN; ALTER JOB a SET DEPENDS ON c; ALTER JOB c SET DEPENDS ON a; ROLLBACK;
