-- Where the last large claim ended, and how many in a row have begun where the one before ended; and where the gate
-- stood at the last vacuum. Whoever has passed the gate may read and write this.
ALTER TABLE gate
    ADD COLUMN front_tenant uuid,
    ADD COLUMN front_priority smallint,
    ADD COLUMN front_due_at bigint,
    ADD COLUMN front_looks integer NOT NULL DEFAULT 0,
    ADD COLUMN vacuum_fence bigint NOT NULL DEFAULT 0;

-- No run of a claim is due later: who looks for those need not look into it.
ALTER TABLE claims ADD COLUMN due_until bigint NOT NULL DEFAULT 9223372036854775807;
