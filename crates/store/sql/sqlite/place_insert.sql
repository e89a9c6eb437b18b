-- What runs can ask for.
INSERT INTO places (words) VALUES (?1) ON CONFLICT (words) DO UPDATE SET words = words RETURNING id
