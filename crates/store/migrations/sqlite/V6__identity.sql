-- Who made a job. What was made before there were owners belongs to the user admin.
ALTER TABLE jobs ADD COLUMN owner_id BLOB NOT NULL DEFAULT x'00000000000000000000000000000002';

-- Tenants (1), users (2), roles (3) and keys (4).
CREATE TABLE identities (
    id BLOB PRIMARY KEY,
    kind INTEGER NOT NULL,
    -- A tenant belongs to the cluster, which is a zero id.
    tenant_id BLOB NOT NULL,
    name TEXT NOT NULL,
    -- The user of a key.
    owner_id BLOB,
    expires_at INTEGER,
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX identities_name ON identities (tenant_id, kind, name);
CREATE INDEX identities_owner ON identities (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX identities_expires ON identities (expires_at) WHERE expires_at IS NOT NULL;

-- What users and roles were given: a privilege, or all that a role has.
CREATE TABLE awards (
    id BLOB PRIMARY KEY,
    tenant_id BLOB NOT NULL,
    to_id BLOB NOT NULL,
    role_id BLOB,
    privilege TEXT,
    CHECK ((role_id IS NULL) <> (privilege IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX awards_tenant ON awards (tenant_id, id);
CREATE INDEX awards_to ON awards (to_id);
CREATE INDEX awards_role ON awards (role_id) WHERE role_id IS NOT NULL;

-- What the store itself must know of a tenant.
CREATE TABLE quotas (
    tenant_id BLOB PRIMARY KEY,
    max_jobs INTEGER,
    max_concurrent INTEGER
) STRICT, WITHOUT ROWID;

-- Grows with every change of identity: who remembers something looks here whether it still holds.
CREATE TABLE identity_generation (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation INTEGER NOT NULL
) STRICT;

INSERT INTO identity_generation (one, generation) VALUES (1, 0);
