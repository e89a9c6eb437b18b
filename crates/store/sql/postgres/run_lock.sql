-- Locks runs that do not wait, by id. This comes before the lock of waits and before the gate
-- (docs/decisions/023-ends-beside-each-other.md). The lock of a run that began to wait meanwhile cannot be kept: the
-- transaction gives way and begins again.
WITH found AS MATERIALIZED (SELECT id FROM runs WHERE id = ANY ($1::uuid[]) AND wait = 0),
locked AS MATERIALIZED (
    SELECT r.wait FROM found f JOIN runs r ON r.id BETWEEN f.id AND f.id ORDER BY r.id FOR UPDATE OF r
)
SELECT give_way() FROM locked WHERE wait <> 0 LIMIT 1
