-- How old a release may be that works on these tables: the newest migration that it knows has at least this number.
-- A migration that only adds leaves it alone. One that takes something away raises it to that of the release which
-- stopped using what goes (docs/decisions/020-rolling-upgrades.md).
CREATE TABLE compatibility (
    one smallint PRIMARY KEY CHECK (one = 1),
    needs integer NOT NULL
);

INSERT INTO compatibility (one, needs) VALUES (1, 9);
