-- Leadership does not change until this transaction is over.
SELECT 1 FROM roles WHERE name = 'LEADER' FOR SHARE
