-- Deletes the tags of jobs that this transaction has written, before they are written anew.
DELETE FROM job_tags
WHERE job_id = ANY (ARRAY(SELECT id FROM jobs WHERE id = ANY ($1::uuid[]) AND xmin = pg_current_xact_id()::xid))
