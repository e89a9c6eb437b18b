-- Node $1, which has ended, was alive at $2, though it had not renewed its lease since. Another node may have joined
-- before and recorded the outage.
WITH acted AS (
    UPDATE nodes SET renewed_at = least($2::bigint, clock())
    WHERE id = $1 AND renewed_at < least($2::bigint, clock()) AND retired_at IS NULL AND 'SCHEDULER' = ANY (roles)
    RETURNING renewed_at AS at
)
UPDATE outages o SET since = acted.at
FROM acted
WHERE o.since < acted.at AND acted.at < o.until AND NOT EXISTS (SELECT 1 FROM outages WHERE since = acted.at)
