-- Goes on behind audit_requested, and tells what is new.
SELECT id FROM born WHERE id <> ALL ((SELECT ids FROM known)::uuid[])
