-- Continues audit_requested, and returns the new runs.
SELECT id FROM born WHERE id <> ALL ((SELECT ids FROM known)::uuid[])
