-- Every grant of a claim is over.
DELETE FROM claims WHERE first = ?1
