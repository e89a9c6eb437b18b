-- Who owns a shard. The leader says so, in its epoch; the fence grows with every move.
CREATE TABLE shard_owners (
    shard_id uuid PRIMARY KEY,
    -- None while no node may own it.
    node_id uuid,
    fence bigint NOT NULL,
    epoch bigint NOT NULL,
    since bigint NOT NULL
);

CREATE INDEX shard_owners_node ON shard_owners (node_id) WHERE node_id IS NOT NULL;

-- The parts of runs that were divided, in their order. Each is a run of its own.
CREATE TABLE parts (
    parent_id uuid NOT NULL,
    number integer NOT NULL,
    run_id uuid NOT NULL UNIQUE,
    -- The shard of the part; empty when it has none.
    shard text NOT NULL,
    PRIMARY KEY (parent_id, number)
);
