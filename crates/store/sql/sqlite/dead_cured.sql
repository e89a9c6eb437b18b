-- A tenant has no dead letters any more.
DELETE FROM dead_letter_notices WHERE tenant_id = ?1
