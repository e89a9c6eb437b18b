-- Who owns a shard. The leader says so, in its epoch; the fence grows with every move.
CREATE TABLE shard_owners (
    shard_id BLOB PRIMARY KEY,
    -- None while no node may own it.
    node_id BLOB,
    fence INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX shard_owners_node ON shard_owners (node_id) WHERE node_id IS NOT NULL;

-- The parts of runs that were divided, in their order. Each is a run of its own.
CREATE TABLE parts (
    parent_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    run_id BLOB NOT NULL UNIQUE,
    -- The shard of the part; empty when it has none.
    shard TEXT NOT NULL,
    PRIMARY KEY (parent_id, number)
) STRICT, WITHOUT ROWID;
