-- What was in force and what was used while an attempt ran, as JSON.
ALTER TABLE history ADD COLUMN details TEXT;
ALTER TABLE attempts ADD COLUMN details TEXT;
