-- Who was told about dead letters, and when.
SELECT tenant_id, told_at FROM dead_letter_notices
