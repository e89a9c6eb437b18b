-- Serializes changes of leadership: the next statement sees what the previous holder committed.
SELECT 1 FROM roles WHERE name = 'LEADER' FOR UPDATE
