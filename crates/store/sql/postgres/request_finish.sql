-- What a request was answered.
UPDATE requests SET status = $3, head = $4, body = $5 WHERE tenant_id = $1 AND key = $2 AND status IS NULL
