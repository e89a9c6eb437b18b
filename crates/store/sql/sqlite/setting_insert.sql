-- A setting that was not there.
INSERT OR IGNORE INTO settings (name, value, version, changed_at) VALUES (?1, ?2, 1, ?3)
