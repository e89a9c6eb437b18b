-- Versions of jobs that are too old to be kept.
DELETE FROM job_versions v USING unnest($1::uuid[], $2::integer[]) AS u (job_id, version)
WHERE v.job_id BETWEEN u.job_id AND u.job_id AND v.version <= u.version
