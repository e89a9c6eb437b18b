-- Data keys under another master key, where secrets are the ones that were read.
WITH done AS (
    UPDATE secrets s SET key_id = u.key_id, data_key = u.data_key
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::bytea[])
        AS u (tenant_id, job_id, name, version, from_id, key_id, data_key)
    WHERE s.tenant_id = u.tenant_id AND s.job_id = u.job_id AND s.name = u.name
        AND s.version = u.version AND s.key_id = u.from_id
    RETURNING 1
)
SELECT count(*) FROM done
