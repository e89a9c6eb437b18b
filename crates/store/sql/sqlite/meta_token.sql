-- The latest fencing token that was written down.
SELECT token FROM meta
