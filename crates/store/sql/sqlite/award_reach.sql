-- All that a user or a role has, whichever way.
WITH RECURSIVE reach (id) AS (
    SELECT ?1
    UNION
    SELECT a.role_id FROM awards a JOIN reach r ON a.to_id = r.id WHERE a.role_id IS NOT NULL
)
SELECT DISTINCT a.role_id, a.privilege FROM awards a JOIN reach r ON a.to_id = r.id
