-- What psql asks of a catalog is answered, or refused politely.
\dt sys.jobs
\l
\conninfo
