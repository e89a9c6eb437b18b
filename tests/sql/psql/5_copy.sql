-- What is asked can be written out.
COPY (SELECT 'a	b' AS tab, NULL AS nothing, '' AS empty, 'c"d' AS quote) TO STDOUT;
COPY (SELECT 'a	b' AS tab, NULL AS nothing, '' AS empty, 'c"d' AS quote) TO STDOUT WITH (FORMAT csv, HEADER);
\copy (SELECT 1 AS one, 2 AS two) TO STDOUT CSV HEADER
COPY (SELECT nope FROM sys.jobs) TO STDOUT;
SELECT 'the session goes on' AS said;
