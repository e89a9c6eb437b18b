-- The version of a setting.
SELECT version FROM settings WHERE name = ?1
