-- What a node is, beyond its lease. A node that fell silent stays listed until somebody removes it or it comes back.
ALTER TABLE nodes
    ADD COLUMN labels text[] NOT NULL DEFAULT '{}',
    ADD COLUMN capacity integer NOT NULL DEFAULT 0,
    ADD COLUMN settings_hash text NOT NULL DEFAULT '',
    -- Somebody asked it to take nothing new.
    ADD COLUMN draining boolean NOT NULL DEFAULT false,
    -- Buried, and the last of its runs was handed on.
    ADD COLUMN cleared boolean NOT NULL DEFAULT false,
    -- It left, was removed or came back as another one.
    ADD COLUMN gone_at bigint;

-- Who has a role that only one node has at a time. An epoch belongs to one node for ever.
CREATE TABLE roles (
    name text PRIMARY KEY,
    epoch bigint NOT NULL,
    node_id uuid,
    since bigint NOT NULL
);

INSERT INTO roles (name, epoch, node_id, since) VALUES ('LEADER', 0, NULL, 0);

-- What a run asks of its node; none when any will do. Those that ask for something lie in lanes of their own.
ALTER TABLE runs ADD COLUMN place text[];
DROP INDEX runs_lane;
CREATE INDEX runs_lane ON runs (tenant_id, priority, due_at) WHERE wait = 0 AND place IS NULL;
CREATE INDEX runs_place ON runs (place, tenant_id, priority, due_at) WHERE wait = 0 AND place IS NOT NULL;
CREATE INDEX runs_quorum ON runs (id) WHERE wait = 3;

-- Schedulers that have seen a run which waits for a majority of them.
CREATE TABLE acknowledgements (
    run_id uuid NOT NULL,
    epoch bigint NOT NULL,
    node_id uuid NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (run_id, epoch, node_id)
);
