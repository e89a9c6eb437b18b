-- Settings, and what clients ask about themselves.
SHOW server_encoding;
SHOW TimeZone;
SET TimeZone = 'Europe/Berlin';
SHOW TimeZone;
SET statement_timeout = '5s';
SHOW statement_timeout;
RESET ALL;
SHOW statement_timeout;
SET nonsense = 1;
SELECT current_user, current_database();
SELECT 1 AS int, 1.5 AS float, 'text' AS text, true AS bool, NULL AS nothing;
LISTEN nonsense;
LISTEN punctual_runs;
UNLISTEN *;
DISCARD ALL;
;
