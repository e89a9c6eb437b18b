-- Times in which no scheduler was alive.
SELECT since, until FROM outages ORDER BY since DESC LIMIT ?1
