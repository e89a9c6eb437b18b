-- Serializes changes of leadership: the next statement sees the changes of the previous holder.
SELECT 1 FROM roles WHERE name = 'LEADER' FOR UPDATE
