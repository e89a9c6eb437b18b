-- Where the chain of a tenant begins and ends.
SELECT anchor_number, anchor_hash, head_number, head_hash, anchor_at FROM audit_chains WHERE tenant_id = $1
