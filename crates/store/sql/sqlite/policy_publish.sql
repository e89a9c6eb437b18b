-- What every node should run with, if that is news.
INSERT INTO settings (name, value, version, changed_at) VALUES ('cluster.policy', ?1, 1, ?2)
ON CONFLICT (name) DO UPDATE SET value = ?1, version = version + 1, changed_at = ?2 WHERE value <> ?1
