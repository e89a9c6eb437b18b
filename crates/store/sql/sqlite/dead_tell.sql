-- A tenant is told about dead letters.
INSERT OR REPLACE INTO dead_letter_notices (tenant_id, told_at) VALUES (?1, ?2)
