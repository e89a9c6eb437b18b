-- What a node is, beyond its lease. A node that fell silent stays listed until somebody removes it or it comes back.
ALTER TABLE nodes ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
ALTER TABLE nodes ADD COLUMN capacity INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN settings_hash TEXT NOT NULL DEFAULT '';
-- Somebody asked it to take nothing new.
ALTER TABLE nodes ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
-- Buried, and the last of its runs was handed on.
ALTER TABLE nodes ADD COLUMN cleared INTEGER NOT NULL DEFAULT 0;
-- It left, was removed or came back as another one.
ALTER TABLE nodes ADD COLUMN gone_at INTEGER;

-- Who has a role that only one node has at a time. An epoch belongs to one node for ever.
CREATE TABLE roles (
    name TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    node_id BLOB,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO roles (name, epoch, node_id, since) VALUES ('LEADER', 0, NULL, 0);

-- What runs can ask of their nodes, as JSON.
CREATE TABLE places (
    id INTEGER PRIMARY KEY,
    words TEXT NOT NULL UNIQUE
) STRICT;

-- The lane of a run that asks for something: ten times the place, and the priority. Others are in that of their priority.
ALTER TABLE runs ADD COLUMN lane INTEGER;
CREATE INDEX runs_quorum ON runs (id) WHERE wait = 3;

-- Schedulers that have seen a run which waits for a majority of them.
CREATE TABLE acknowledgements (
    run_id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    node_id BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (run_id, epoch, node_id)
) STRICT, WITHOUT ROWID;
