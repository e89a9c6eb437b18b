-- Jobs that were changed in the last so many microseconds, $1, at most $2 of them.
SELECT id, version FROM jobs WHERE updated_at > clock() - $1::bigint ORDER BY updated_at DESC LIMIT $2::bigint
