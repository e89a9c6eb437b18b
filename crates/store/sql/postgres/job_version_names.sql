-- The names that jobs had in some versions, or their last ones, in the order of the questions.
SELECT coalesce(v.name, j.name)
FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS u (job_id, version, place)
LEFT JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id
LEFT JOIN job_versions v ON v.job_id = u.job_id AND v.version = u.version
ORDER BY u.place
