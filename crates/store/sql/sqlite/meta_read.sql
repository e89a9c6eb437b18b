-- The counters, when the database is opened.
SELECT fence, clock FROM meta
