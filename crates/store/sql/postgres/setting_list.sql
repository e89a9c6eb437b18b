-- What the cluster agrees on.
SELECT name, value, version, changed_at FROM settings ORDER BY name
