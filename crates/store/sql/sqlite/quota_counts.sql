-- Whether a tenant may have only so many runs at work.
SELECT 1 FROM quotas WHERE max_concurrent IS NOT NULL LIMIT 1
