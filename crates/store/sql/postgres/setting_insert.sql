-- A setting that was not there.
INSERT INTO settings (name, value, version, changed_at) VALUES ($1, $2, 1, clock())
ON CONFLICT (name) DO NOTHING
RETURNING version
