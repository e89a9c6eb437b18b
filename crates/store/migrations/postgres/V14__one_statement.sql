-- For statements that do in one round trip what took several: a function sees what was committed when it is called, the
-- statement around it only what was committed before it began.

-- Live runs that had ended before: they were sent again, and do not run again. Answers which; null if there is none.
CREATE FUNCTION forget_ended(sent uuid[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    ended uuid[];
BEGIN
    SELECT array_agg(h.id) INTO ended
    FROM unnest(sent) AS u (id), history h
    WHERE h.id BETWEEN u.id AND u.id AND h.outcome > 0;
    IF ended IS NOT NULL THEN
        DELETE FROM runs WHERE id = ANY (ended);
    END IF;
    RETURN ended;
END $$;

-- Whether a node may be handed runs. It is not buried until the transaction ends: its writes share this lock, and its
-- burial takes it alone.
CREATE FUNCTION lives(lock bigint, node uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock);
    RETURN EXISTS (SELECT 1 FROM nodes WHERE id = node AND NOT buried);
END $$;
