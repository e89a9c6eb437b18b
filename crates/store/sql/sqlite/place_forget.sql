-- Deletes placements that no run requests any more. A placement has ?1 lanes.
DELETE FROM places WHERE NOT EXISTS (
    SELECT 1 FROM runs AS r WHERE r.lane >= 20 AND r.lane BETWEEN places.id * ?1 AND places.id * ?1 + ?1 - 1
)
