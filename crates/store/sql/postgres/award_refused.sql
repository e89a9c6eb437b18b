-- Why something could not be given: it was before, or somebody is missing.
SELECT
    EXISTS (SELECT 1 FROM awards WHERE id = $1),
    EXISTS (SELECT 1 FROM identities WHERE id = $3 AND kind IN (2, 3) AND tenant_id = $2)
        AND ($4::uuid IS NULL OR EXISTS (SELECT 1 FROM identities WHERE id = $4 AND kind = 3 AND tenant_id = $2))
