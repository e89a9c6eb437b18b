@ admin
SHOW TimeZone; SET TimeZone = 'europe/berlin'; SHOW timezone; SET TIME ZONE 'Mars/Olympus'; RESET TimeZone; SHOW TIME ZONE;
SET statement_timeout = '5s'; SHOW statement_timeout; SET statement_timeout TO '2min'; SHOW statement_timeout;
SET client_encoding = 'utf-8'; SET NAMES 'LATIN1'; SET standard_conforming_strings = off; SET DateStyle = 'ISO, DMY'; SET DateStyle = German;
SET application_name = 'psql'; SHOW application_name; RESET ALL; SHOW application_name;
SET my.own = 'x'; SHOW my.own; SET nonsense = 1; SHOW nonsense;
-- A block holds one change, which happens at COMMIT.
BEGIN; CREATE JOB a AS NOOP; SHOW JOBS; COMMIT; SHOW JOBS;
BEGIN; DROP JOB a; ROLLBACK; SHOW JOBS;
BEGIN; CREATE JOB b AS NOOP; CREATE JOB c AS NOOP; SHOW JOBS; COMMIT; SHOW JOBS;
BEGIN; CREATE JOB a AS NOOP; ROLLBACK;
BEGIN; EXECUTE JOB a; COMMIT;
BEGIN; SET LOCAL TimeZone = 'Asia/Tokyo'; SHOW TimeZone; COMMIT; SHOW TimeZone; SET LOCAL TimeZone = 'Asia/Tokyo'; SHOW TimeZone;
BEGIN; BEGIN; COMMIT; COMMIT; ROLLBACK;
BEGIN; DISCARD ALL; ROLLBACK; DISCARD ALL; DEALLOCATE ALL; CLOSE ALL; UNLISTEN *;
SAVEPOINT s; NOTIFY x; PREPARE p AS SELECT 1;
-- Savepoints, as drivers set them around each statement.
BEGIN; SAVEPOINT a; SELECT nonsense; SELECT 1; ROLLBACK TO SAVEPOINT a; SELECT 1 AS one; RELEASE SAVEPOINT a; COMMIT;
BEGIN; SAVEPOINT a; CREATE JOB saved AS NOOP; ROLLBACK TO a; COMMIT; SHOW JOBS;
BEGIN; CREATE JOB saved AS NOOP; SAVEPOINT a; SELECT nonsense; ROLLBACK TO a; COMMIT; SHOW JOBS;
BEGIN; ROLLBACK TO nowhere; ROLLBACK;
DROP JOB saved;
