-- tables
acknowledgements
alerts
artifacts
attempts
audit with fillfactor=80
audit_chains
audit_place_seq
awards
claims with vacuum_truncate=off, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_scale_factor=0
compatibility
dag_runs
dag_steps
dead_letter_notices
deliveries
effect_keys
effects
enqueue_roles
gate with fillfactor=10, autovacuum_vacuum_threshold=10000, autovacuum_vacuum_scale_factor=0
history by RANGE (id)
history_ranges
identities
identity_generation
job_tags
job_versions
jobs
last_ends with fillfactor=50
message_keys
messages with vacuum_truncate=off, autovacuum_vacuum_threshold=20000, autovacuum_vacuum_scale_factor=0.1, autovacuum_analyze_threshold=100000, autovacuum_vacuum_cost_delay=0
node_starts
nodes with fillfactor=50
objects
outages
outputs
parts
pool_runs
queue_cursors with fillfactor=50
quotas
requests
roles
runs with vacuum_truncate=off, autovacuum_vacuum_threshold=20000, autovacuum_vacuum_scale_factor=0.1, autovacuum_analyze_threshold=100000, autovacuum_vacuum_cost_delay=0
secrets
settings
shard_owners
start_tokens
tallies with fillfactor=70
tally_cursor
upstream

-- columns
acknowledgements.run_id uuid not null
acknowledgements.epoch bigint not null
acknowledgements.node_id uuid not null
acknowledgements.at bigint not null
alerts.id uuid not null
alerts.at bigint not null
alerts.kind text not null
alerts.tenant_id uuid not null
alerts.job_id uuid not null
alerts.run_id uuid
alerts.text text not null
alerts.settled boolean not null
artifacts.tenant_id uuid not null
artifacts.name text not null collate C
artifacts.version bigint not null
artifacts.digest text not null collate C
artifacts.bytes bigint not null
artifacts.unpacked_bytes bigint not null
artifacts.entries bigint not null
artifacts.labels text not null
artifacts.created_at bigint not null
artifacts.created_by text not null
artifacts.deleted_at bigint
attempts.run_id uuid not null
attempts.number integer not null
attempts.fence bigint not null
attempts.node_id uuid not null
attempts.started_at bigint not null
attempts.finished_at bigint not null
attempts.attempt_end smallint not null
attempts.message text
attempts.error text
attempts.details text
audit.place bigint not null
audit.tenant_id uuid not null
audit.at bigint not null
audit.actor text not null
audit.kind text not null collate C
audit.job_id uuid
audit.run_id uuid
audit.node_id uuid
audit.outcome text not null
audit.details text not null
audit.runs bytea not null storage e
audit.number bigint
audit.hash bytea
audit_chains.tenant_id uuid not null
audit_chains.anchor_number bigint not null
audit_chains.anchor_hash bytea not null
audit_chains.anchor_at bigint
audit_chains.head_number bigint not null
audit_chains.head_hash bytea not null
awards.id uuid not null
awards.tenant_id uuid not null
awards.to_id uuid not null
awards.role_id uuid
awards.privilege text
awards.queue_id uuid
claims.id bigint not null
claims.node_id uuid not null
claims.claimed_at bigint not null
claims.run_ids uuid[] not null storage e
claims.turns integer[] not null
claims.whole boolean not null default true
claims.due_until bigint not null default '9223372036854775807'::bigint
compatibility.one smallint not null
compatibility.needs integer not null
dag_runs.run_id uuid not null
dag_runs.job_id uuid not null
dag_runs.tenant_id uuid not null
dag_runs.version integer not null
dag_runs.revision bigint not null
dag_runs.control smallint not null
dag_runs.is_over boolean not null
dag_runs.rerun_of uuid
dag_runs.forced text not null
dag_runs.scheduled_for bigint not null
dag_runs.parameters text
dag_steps.dag_run_id uuid not null
dag_steps.step integer not null
dag_steps.item integer not null
dag_steps.outcome smallint
dag_steps.reason text
dag_steps.reason_text text
dag_steps.run_id uuid
dag_steps.items integer
dag_steps.by_step integer
dag_steps.by_item integer
dag_steps.decided_at bigint not null
dag_steps.ended_at bigint
dag_steps.adopted boolean not null
dag_steps.called boolean not null
dead_letter_notices.tenant_id uuid not null
dead_letter_notices.told_at bigint not null
deliveries.channel text not null
deliveries.alert_id uuid not null
deliveries.tries integer not null
deliveries.next_try_at bigint
deliveries.delivered_at bigint
deliveries.error text
deliveries.begun_at bigint not null default 0
deliveries.tried_at bigint not null default 0
effect_keys.run_id uuid not null
effect_keys.generation integer not null
effect_keys.hash bytea not null
effects.run_id uuid not null
effects.generation integer not null
effects.at bigint not null
enqueue_roles.role name not null
enqueue_roles.queue_id uuid not null
enqueue_roles.user_id uuid not null
gate.one smallint not null
gate.fence bigint not null
gate.front_tenant uuid
gate.front_lane smallint
gate.front_due_at bigint
gate.front_looks integer not null default 0
gate.vacuum_fence bigint not null default 0
history.id uuid not null
history.job_id uuid not null
history.tenant_id uuid not null
history.node_id uuid
history.scheduled_for bigint not null
history.due_at bigint not null
history.finished_at bigint not null
history.started_at bigint
history.fence bigint
history.rows_affected bigint
history.scheduled_last bigint
history.count bigint
history.job_version integer not null
history.coalesced integer not null
history.attempts integer not null
history.lost integer not null
history.number integer
history.attempt_end smallint
history.origin smallint not null
history.outcome smallint not null
history.dead_letter boolean not null
history.shard text not null
history.parameters text
history.reason text
history.reason_text text
history.message text
history.error text
history.result text
history.details text
history.requested_by uuid
history.created_at bigint not null
history_ranges.number integer not null
history_ranges.first uuid not null
history_ranges.until uuid not null
history_ranges.row_by_row boolean not null
identities.id uuid not null
identities.kind smallint not null
identities.tenant_id uuid not null
identities.name text not null collate C
identities.owner_id uuid
identities.expires_at bigint
identities.body text not null
identities.version integer not null
identities.created_at bigint not null
identities.updated_at bigint not null
identity_generation.one smallint not null
identity_generation.generation bigint not null
identity_generation.salt bytea
job_tags.tenant_id uuid not null
job_tags.tag text not null collate C
job_tags.name text not null collate C
job_tags.job_id uuid not null
job_versions.job_id uuid not null
job_versions.version integer not null
job_versions.name text not null collate C
job_versions.state text not null
job_versions.definition text not null
job_versions.changed_at bigint not null
job_versions.changed_by text not null
job_versions.changed text not null
jobs.id uuid not null
jobs.tenant_id uuid not null
jobs.name text not null collate C
jobs.version integer not null
jobs.state text not null
jobs.after_dependencies boolean not null
jobs.own_retention boolean not null
jobs.definition text not null
jobs.next_run bigint
jobs.created_at bigint not null
jobs.updated_at bigint not null
jobs.changed_fence bigint
jobs.owner_id uuid not null
jobs.once_at bigint
last_ends.job_id uuid not null
last_ends.outcome smallint not null
last_ends.finished_at bigint not null
last_ends.succeeded_at bigint
last_ends.fence bigint not null
message_keys.queue_id uuid not null
message_keys.key text not null collate C
message_keys.run_id uuid not null
message_keys.until bigint not null
messages.run_id uuid not null
messages.queue_id uuid not null
messages.at bigint not null
messages.order_at bigint not null
messages.expires_at bigint
messages.fence bigint
messages.leased_at bigint
messages.deadline bigint
messages.node_id uuid
messages.urgency smallint not null
messages.state smallint not null
messages.workspace text not null collate C
messages.ordering_key text collate C
messages.progress text
messages.released_fence bigint
node_starts.node_id uuid not null
node_starts.run_ids uuid[] not null
node_starts.turns integer[] not null
node_starts.started_at bigint[] not null
nodes.id uuid not null
nodes.name text not null
nodes.joined_at bigint not null
nodes.lease_until bigint not null
nodes.dead boolean not null
nodes.address text
nodes.version text not null default ''::text
nodes.roles text[] not null default '{}'::text[]
nodes.renewed_at bigint not null default 0
nodes.retired_at bigint
nodes.labels text[] not null default '{}'::text[]
nodes.capacity integer not null default 0
nodes.http_capacity integer not null default 0
nodes.settings_hash text not null default ''::text
nodes.draining boolean not null default false
nodes.cleared boolean not null default false
nodes.clock_offset_us bigint not null default 0
nodes.gone_at bigint
objects.id uuid not null
objects.tenant_id uuid not null
objects.kind text not null
objects.name text not null collate C
objects.body text not null
objects.version integer not null
objects.created_at bigint not null
objects.changed_at bigint not null
outages.since bigint not null
outages.until bigint not null
outputs.run_id uuid not null
outputs.number integer not null
outputs.frames bytea not null storage e
parts.parent_id uuid not null
parts.number integer not null
parts.run_id uuid not null
parts.shard text not null
pool_runs.run_id uuid not null
pool_runs.tenant_id uuid not null
pool_runs.pool text not null collate C
pool_runs.job_id uuid not null
pool_runs.weight bigint not null
pool_runs.priority bigint not null
pool_runs.due_at bigint not null
pool_runs.turn bigint
pool_runs.since bigint not null
pool_runs.called_at bigint
queue_cursors.queue_id uuid not null
queue_cursors.workspace text not null collate C
queue_cursors.tokens double precision not null
queue_cursors.refilled_at bigint not null
queue_cursors.served bigint not null
quotas.tenant_id uuid not null
quotas.max_jobs bigint
quotas.max_concurrent bigint
quotas.weight integer not null
requests.tenant_id uuid not null
requests.key text not null
requests.fingerprint bytea not null
requests.begun_at bigint not null
requests.status smallint
requests.head text
requests.body bytea
roles.name text not null
roles.epoch bigint not null
roles.node_id uuid
roles.since bigint not null
runs.id uuid not null
runs.job_id uuid not null
runs.tenant_id uuid not null
runs.scheduled_for bigint not null
runs.due_at bigint not null
runs.order_at bigint not null
runs.wait_until bigint
runs.job_version integer not null
runs.coalesced integer not null
runs.attempts integer not null
runs.lost integer not null
runs.turn integer not null
runs.lane smallint not null
runs.origin smallint not null
runs.wait smallint not null
runs.ignore_dependencies boolean not null
runs.shard text not null
runs.parameters text
runs.begun integer
runs.cancel_code text
runs.cancel_text text
runs.place text[]
runs.requested_by uuid
runs.created_at bigint not null
secrets.tenant_id uuid not null
secrets.job_id uuid not null
secrets.name text not null collate C
secrets.version integer not null
secrets.key_id text not null collate C
secrets.data_key bytea not null
secrets.value bytea not null
secrets.changed_at bigint not null
secrets.changed_by text not null
settings.name text not null collate C
settings.value text not null
settings.version integer not null
settings.changed_at bigint not null
shard_owners.shard_id uuid not null
shard_owners.node_id uuid
shard_owners.fence bigint not null
shard_owners.epoch bigint not null
shard_owners.since bigint not null
tallies.tenant_id uuid not null
tallies.job_id uuid not null
tallies.hour bigint not null
tallies.measure smallint not null
tallies.class smallint not null
tallies.amount bigint not null
tally_cursor.one smallint not null
tally_cursor.finished_at bigint not null
tally_cursor.id uuid not null
upstream.job_id uuid not null
upstream.depends_on uuid not null

-- constraints
acknowledgements acknowledgements_pkey PRIMARY KEY (run_id, epoch, node_id)
alerts alerts_pkey PRIMARY KEY (id)
artifacts artifacts_pkey PRIMARY KEY (tenant_id, name, version)
attempts attempts_pkey PRIMARY KEY (run_id, number)
audit audit_pkey PRIMARY KEY (place)
audit_chains audit_chains_pkey PRIMARY KEY (tenant_id)
awards awards_check CHECK (((role_id IS NULL) <> (privilege IS NULL)))
awards awards_pkey PRIMARY KEY (id)
claims claims_pkey PRIMARY KEY (id)
compatibility compatibility_one_check CHECK ((one = 1))
compatibility compatibility_pkey PRIMARY KEY (one)
dag_runs dag_runs_pkey PRIMARY KEY (run_id)
dag_steps dag_steps_pkey PRIMARY KEY (dag_run_id, item, step)
dead_letter_notices dead_letter_notices_pkey PRIMARY KEY (tenant_id)
deliveries deliveries_pkey PRIMARY KEY (channel, alert_id)
effect_keys effect_keys_pkey PRIMARY KEY (run_id)
effects effects_pkey PRIMARY KEY (run_id)
enqueue_roles enqueue_roles_pkey PRIMARY KEY (role, queue_id)
gate gate_one_check CHECK ((one = 1))
gate gate_pkey PRIMARY KEY (one)
history history_pkey PRIMARY KEY (id)
history_ranges history_ranges_first_key UNIQUE (first)
history_ranges history_ranges_pkey PRIMARY KEY (number)
identities identities_pkey PRIMARY KEY (id)
identity_generation identity_generation_one_check CHECK ((one = 1))
identity_generation identity_generation_pkey PRIMARY KEY (one)
job_tags job_tags_pkey PRIMARY KEY (tenant_id, tag, name)
job_versions job_versions_pkey PRIMARY KEY (job_id, version)
jobs jobs_pkey PRIMARY KEY (id)
last_ends last_ends_pkey PRIMARY KEY (job_id)
message_keys message_keys_pkey PRIMARY KEY (queue_id, key)
messages messages_pkey PRIMARY KEY (run_id)
node_starts node_starts_pkey PRIMARY KEY (node_id)
nodes nodes_pkey PRIMARY KEY (id)
objects objects_pkey PRIMARY KEY (id)
outages outages_pkey PRIMARY KEY (since)
outputs outputs_pkey PRIMARY KEY (run_id, number)
parts parts_pkey PRIMARY KEY (parent_id, number)
parts parts_run_id_key UNIQUE (run_id)
pool_runs pool_runs_pkey PRIMARY KEY (run_id)
queue_cursors queue_cursors_pkey PRIMARY KEY (queue_id)
quotas quotas_pkey PRIMARY KEY (tenant_id)
requests requests_pkey PRIMARY KEY (tenant_id, key)
roles roles_pkey PRIMARY KEY (name)
runs runs_pkey PRIMARY KEY (id)
secrets secrets_pkey PRIMARY KEY (tenant_id, job_id, name)
settings settings_pkey PRIMARY KEY (name)
shard_owners shard_owners_pkey PRIMARY KEY (shard_id)
tallies tallies_pkey PRIMARY KEY (tenant_id, job_id, hour, measure, class)
tally_cursor tally_cursor_one_check CHECK ((one = 1))
tally_cursor tally_cursor_pkey PRIMARY KEY (one)
upstream upstream_pkey PRIMARY KEY (job_id, depends_on)

-- indexes
CREATE INDEX alerts_at ON punctual.alerts USING btree (at)
CREATE INDEX alerts_unsettled ON punctual.alerts USING btree (job_id) WHERE (NOT settled)
CREATE INDEX artifacts_digest ON punctual.artifacts USING btree (digest)
CREATE INDEX audit_job ON punctual.audit USING btree (job_id, place) WHERE (kind = ANY (ARRAY['JOB_CREATED'::text, 'JOB_MODIFIED'::text, 'JOB_DELETED'::text]))
CREATE INDEX audit_run ON punctual.audit USING btree (run_id) WHERE (run_id IS NOT NULL)
CREATE INDEX audit_tenant ON punctual.audit USING btree (tenant_id, place)
CREATE INDEX audit_unsealed ON punctual.audit USING btree (place) WHERE (number IS NULL)
CREATE INDEX awards_queue ON punctual.awards USING btree (queue_id) WHERE (queue_id IS NOT NULL)
CREATE INDEX awards_role ON punctual.awards USING btree (role_id) WHERE (role_id IS NOT NULL)
CREATE INDEX awards_tenant ON punctual.awards USING btree (tenant_id, id)
CREATE INDEX awards_to ON punctual.awards USING btree (to_id)
CREATE INDEX dag_runs_job ON punctual.dag_runs USING btree (job_id, run_id)
CREATE INDEX dag_steps_called ON punctual.dag_steps USING btree (run_id) WHERE called
CREATE INDEX deliveries_begun ON punctual.deliveries USING btree (channel, begun_at, alert_id)
CREATE INDEX history_dead ON ONLY punctual.history USING btree (tenant_id, id) WHERE dead_letter
CREATE INDEX history_finished ON ONLY punctual.history USING btree (finished_at, id)
CREATE INDEX history_job ON ONLY punctual.history USING btree (job_id, id)
CREATE INDEX history_late ON ONLY punctual.history USING btree (uuid_send(job_id), COALESCE(started_at,
CASE
    WHEN ((attempts + lost) > 0) THEN finished_at
    ELSE NULL::bigint
END, '9223372036854775807'::bigint), id) WHERE (((started_at - scheduled_for) > 60000000) IS NOT FALSE)
CREATE INDEX history_tenant ON ONLY punctual.history USING btree (tenant_id, outcome, id, origin)
CREATE INDEX identities_expires ON punctual.identities USING btree (expires_at) WHERE (expires_at IS NOT NULL)
CREATE INDEX identities_owner ON punctual.identities USING btree (owner_id) WHERE (owner_id IS NOT NULL)
CREATE INDEX job_tags_job ON punctual.job_tags USING btree (job_id)
CREATE INDEX job_versions_name ON punctual.job_versions USING btree (name, job_id)
CREATE INDEX jobs_deleted ON punctual.jobs USING btree (id) WHERE (state = 'DELETED'::text)
CREATE INDEX jobs_due ON punctual.jobs USING btree (next_run) WHERE ((state = 'ENABLED'::text) AND (next_run IS NOT NULL))
CREATE INDEX jobs_own_retention ON punctual.jobs USING btree (id) WHERE own_retention
CREATE INDEX jobs_updated ON punctual.jobs USING btree (updated_at, id)
CREATE INDEX message_keys_until ON punctual.message_keys USING btree (until)
CREATE INDEX messages_delayed ON punctual.messages USING btree (queue_id, at) WHERE (state = 1)
CREATE INDEX messages_expiry ON punctual.messages USING btree (expires_at) WHERE (expires_at IS NOT NULL)
CREATE INDEX messages_lease_end ON punctual.messages USING btree (at) WHERE (state = 2)
CREATE INDEX messages_leased ON punctual.messages USING btree (queue_id, workspace) WHERE (state = 2)
CREATE INDEX messages_ordering ON punctual.messages USING btree (queue_id, ordering_key, order_at) WHERE (ordering_key IS NOT NULL)
CREATE INDEX messages_ready ON punctual.messages USING btree (queue_id, workspace, urgency, at) WHERE (state = 0)
CREATE INDEX objects_kind ON punctual.objects USING btree (kind, id)
CREATE INDEX pool_runs_line ON punctual.pool_runs USING btree (tenant_id, pool) WHERE (turn IS NULL)
CREATE INDEX pool_runs_pool ON punctual.pool_runs USING btree (tenant_id, pool)
CREATE INDEX requests_begun ON punctual.requests USING btree (begun_at)
CREATE INDEX runs_cancelled ON punctual.runs USING btree (id) WHERE (cancel_code IS NOT NULL)
CREATE INDEX runs_job ON punctual.runs USING btree (job_id, order_at)
CREATE INDEX runs_lane ON punctual.runs USING btree (tenant_id, lane, due_at) WHERE ((wait = 0) AND (place IS NULL))
CREATE INDEX runs_place ON punctual.runs USING btree (place, tenant_id, lane, due_at) WHERE ((wait = 0) AND (place IS NOT NULL))
CREATE INDEX runs_quorum ON punctual.runs USING btree (id) WHERE (wait = 3)
CREATE INDEX runs_wait_until ON punctual.runs USING btree (wait_until) WHERE (wait_until IS NOT NULL)
CREATE INDEX runs_waiting ON punctual.runs USING btree (job_id, wait, order_at) WHERE (wait <> 0)
CREATE INDEX secrets_key ON punctual.secrets USING btree (key_id, tenant_id, job_id, name)
CREATE INDEX shard_owners_node ON punctual.shard_owners USING btree (node_id) WHERE (node_id IS NOT NULL)
CREATE INDEX tallies_hour ON punctual.tallies USING btree (hour)
CREATE INDEX upstream_depends_on ON punctual.upstream USING btree (depends_on)
CREATE UNIQUE INDEX acknowledgements_pkey ON punctual.acknowledgements USING btree (run_id, epoch, node_id)
CREATE UNIQUE INDEX alerts_pkey ON punctual.alerts USING btree (id)
CREATE UNIQUE INDEX artifacts_pkey ON punctual.artifacts USING btree (tenant_id, name, version)
CREATE UNIQUE INDEX attempts_pkey ON punctual.attempts USING btree (run_id, number)
CREATE UNIQUE INDEX audit_chain ON punctual.audit USING btree (tenant_id, number) WHERE (number IS NOT NULL)
CREATE UNIQUE INDEX audit_chains_pkey ON punctual.audit_chains USING btree (tenant_id)
CREATE UNIQUE INDEX audit_pkey ON punctual.audit USING btree (place)
CREATE UNIQUE INDEX awards_pkey ON punctual.awards USING btree (id)
CREATE UNIQUE INDEX claims_pkey ON punctual.claims USING btree (id)
CREATE UNIQUE INDEX compatibility_pkey ON punctual.compatibility USING btree (one)
CREATE UNIQUE INDEX dag_runs_pkey ON punctual.dag_runs USING btree (run_id)
CREATE UNIQUE INDEX dag_steps_pkey ON punctual.dag_steps USING btree (dag_run_id, item, step)
CREATE UNIQUE INDEX dead_letter_notices_pkey ON punctual.dead_letter_notices USING btree (tenant_id)
CREATE UNIQUE INDEX deliveries_pkey ON punctual.deliveries USING btree (channel, alert_id)
CREATE UNIQUE INDEX effect_keys_pkey ON punctual.effect_keys USING btree (run_id)
CREATE UNIQUE INDEX effects_pkey ON punctual.effects USING btree (run_id)
CREATE UNIQUE INDEX enqueue_roles_pkey ON punctual.enqueue_roles USING btree (role, queue_id)
CREATE UNIQUE INDEX gate_pkey ON punctual.gate USING btree (one)
CREATE UNIQUE INDEX history_pkey ON ONLY punctual.history USING btree (id)
CREATE UNIQUE INDEX history_ranges_first_key ON punctual.history_ranges USING btree (first)
CREATE UNIQUE INDEX history_ranges_pkey ON punctual.history_ranges USING btree (number)
CREATE UNIQUE INDEX identities_name ON punctual.identities USING btree (tenant_id, kind, name)
CREATE UNIQUE INDEX identities_pkey ON punctual.identities USING btree (id)
CREATE UNIQUE INDEX identity_generation_pkey ON punctual.identity_generation USING btree (one)
CREATE UNIQUE INDEX job_tags_pkey ON punctual.job_tags USING btree (tenant_id, tag, name)
CREATE UNIQUE INDEX job_versions_pkey ON punctual.job_versions USING btree (job_id, version)
CREATE UNIQUE INDEX jobs_name ON punctual.jobs USING btree (tenant_id, name) WHERE (state <> 'DELETED'::text)
CREATE UNIQUE INDEX jobs_pkey ON punctual.jobs USING btree (id)
CREATE UNIQUE INDEX last_ends_pkey ON punctual.last_ends USING btree (job_id)
CREATE UNIQUE INDEX message_keys_pkey ON punctual.message_keys USING btree (queue_id, key)
CREATE UNIQUE INDEX messages_pkey ON punctual.messages USING btree (run_id)
CREATE UNIQUE INDEX node_starts_pkey ON punctual.node_starts USING btree (node_id)
CREATE UNIQUE INDEX nodes_pkey ON punctual.nodes USING btree (id)
CREATE UNIQUE INDEX objects_name ON punctual.objects USING btree (tenant_id, kind, name)
CREATE UNIQUE INDEX objects_pkey ON punctual.objects USING btree (id)
CREATE UNIQUE INDEX outages_pkey ON punctual.outages USING btree (since)
CREATE UNIQUE INDEX outputs_pkey ON punctual.outputs USING btree (run_id, number)
CREATE UNIQUE INDEX parts_pkey ON punctual.parts USING btree (parent_id, number)
CREATE UNIQUE INDEX parts_run_id_key ON punctual.parts USING btree (run_id)
CREATE UNIQUE INDEX pool_runs_pkey ON punctual.pool_runs USING btree (run_id)
CREATE UNIQUE INDEX queue_cursors_pkey ON punctual.queue_cursors USING btree (queue_id)
CREATE UNIQUE INDEX quotas_pkey ON punctual.quotas USING btree (tenant_id)
CREATE UNIQUE INDEX requests_pkey ON punctual.requests USING btree (tenant_id, key)
CREATE UNIQUE INDEX roles_pkey ON punctual.roles USING btree (name)
CREATE UNIQUE INDEX runs_pkey ON punctual.runs USING btree (id)
CREATE UNIQUE INDEX secrets_pkey ON punctual.secrets USING btree (tenant_id, job_id, name)
CREATE UNIQUE INDEX settings_pkey ON punctual.settings USING btree (name)
CREATE UNIQUE INDEX shard_owners_pkey ON punctual.shard_owners USING btree (shard_id)
CREATE UNIQUE INDEX tallies_pkey ON punctual.tallies USING btree (tenant_id, job_id, hour, measure, class)
CREATE UNIQUE INDEX tally_cursor_pkey ON punctual.tally_cursor USING btree (one)
CREATE UNIQUE INDEX upstream_pkey ON punctual.upstream USING btree (job_id, depends_on)

-- functions
advance_start_tokens(first_of_second bigint) v u: 
BEGIN
    PERFORM pg_advisory_xact_lock('start_tokens'::regclass::oid::integer, 1);
    IF (SELECT last_value FROM start_tokens) < first_of_second THEN
        PERFORM setval('start_tokens', first_of_second);
    END IF;
END 
allow_enqueue(sender name, tenant text, user_name text, queue text) v u: 
DECLARE
    of_tenant uuid;
    as_user uuid;
    to_queue uuid;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = sender) THEN
        RAISE EXCEPTION 'role "%" does not exist', sender USING ERRCODE = 'undefined_object';
    END IF;
    SELECT id INTO of_tenant FROM identities WHERE kind = 1 AND name = tenant;
    IF of_tenant IS NULL THEN
        RAISE EXCEPTION 'tenant "%" does not exist', tenant USING ERRCODE = 'undefined_object';
    END IF;
    SELECT id INTO as_user FROM identities WHERE kind = 2 AND tenant_id = of_tenant AND name = user_name;
    IF as_user IS NULL THEN
        RAISE EXCEPTION 'user "%" does not exist in tenant "%"', user_name, tenant USING ERRCODE = 'undefined_object';
    END IF;
    SELECT id INTO to_queue FROM jobs
    WHERE tenant_id = of_tenant AND name = queue AND state <> 'DELETED' AND definition::jsonb -> 'queue' IS NOT NULL;
    IF to_queue IS NULL THEN
        RAISE EXCEPTION 'queue "%" does not exist in tenant "%"', queue, tenant USING ERRCODE = 'undefined_object';
    END IF;
    IF EXISTS (
        SELECT 1 FROM enqueue_roles r JOIN jobs j ON j.id = r.queue_id
        WHERE r.role = sender AND j.tenant_id <> of_tenant AND j.state <> 'DELETED'
    ) THEN
        RAISE EXCEPTION 'role "%" sends to queues of another tenant', sender USING ERRCODE = 'invalid_grant_operation';
    END IF;
    INSERT INTO enqueue_roles (role, queue_id, user_id) VALUES (sender, to_queue, as_user)
    ON CONFLICT (role, queue_id) DO UPDATE SET user_id = excluded.user_id;
    EXECUTE format('GRANT USAGE ON SCHEMA punctual TO %I', sender);
END 
clock() s s:  SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint 
disallow_enqueue(sender name, queue text) v u: 
BEGIN
    DELETE FROM enqueue_roles r USING jobs j
    WHERE r.role = sender AND j.id = r.queue_id AND j.name = queue;
    RETURN FOUND;
END 
enqueue(queue text, payload jsonb, workspace text, priority integer, process_after timestamp with time zone, deduplication_key text, ordering_key text, headers jsonb) v u: 
DECLARE
    to_queue uuid;
    as_user uuid;
    of_job record;
    settings jsonb;
    now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    due bigint := greatest(now, (extract(epoch FROM process_after) * 1000000)::bigint);
    rank integer;
    message uuid;
    body jsonb;
    earlier uuid;
    is_blocked boolean := false;
BEGIN
    SELECT r.queue_id, r.user_id INTO to_queue, as_user FROM enqueue_right(session_user, enqueue.queue) r;
    IF to_queue IS NULL THEN
        RAISE EXCEPTION 'permission denied for queue "%"', enqueue.queue
            USING ERRCODE = 'insufficient_privilege',
                HINT = format('The administrator allows it with punctual.allow_enqueue(%L, tenant, user, %L).', session_user, enqueue.queue);
    END IF;
    SELECT * INTO of_job FROM jobs WHERE id = to_queue;
    settings := of_job.definition::jsonb -> 'queue';
    IF (settings ->> 'is_draining')::boolean THEN
        RAISE EXCEPTION 'queue "%" is draining and takes no new messages', enqueue.queue USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    rank := coalesce(enqueue.priority, (of_job.definition::jsonb ->> 'priority')::integer, 5);
    IF rank NOT BETWEEN coalesce((settings -> 'priority_range' ->> 0)::integer, 0) AND coalesce((settings -> 'priority_range' ->> 1)::integer, 9) THEN
        RAISE EXCEPTION 'priority % is not in the range of queue "%"', rank, enqueue.queue USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    IF enqueue.payload IS NULL OR octet_length(enqueue.payload::text) > 1048576 THEN
        RAISE EXCEPTION 'payload must be JSON of at most 1048576 bytes' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    IF greatest(octet_length(enqueue.workspace), octet_length(deduplication_key), octet_length(enqueue.ordering_key)) > 200
        OR deduplication_key = '' OR enqueue.ordering_key = '' OR enqueue.workspace IS NULL
    THEN
        RAISE EXCEPTION 'workspace and keys have at most 200 bytes, and keys are not empty' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    IF jsonb_typeof(enqueue.headers) <> 'object'
        OR EXISTS (SELECT 1 FROM jsonb_each(enqueue.headers) AS h WHERE jsonb_typeof(h.value) <> 'string')
        OR (SELECT count(*) FROM jsonb_object_keys(enqueue.headers)) > 64
    THEN
        RAISE EXCEPTION 'headers must be a JSON object with at most 64 texts' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    message := (
        lpad(to_hex(due / 1000), 12, '0') || '7' || lpad(to_hex((due % 1000) * 4096 / 1000), 3, '0')
        || substr(replace(gen_random_uuid()::text, '-', ''), 17)
    )::uuid;
    IF deduplication_key IS NOT NULL THEN
        INSERT INTO message_keys AS k (queue_id, key, run_id, until)
        VALUES (
            to_queue, deduplication_key, message,
            now + (extract(epoch FROM coalesce((settings ->> 'deduplication')::interval, interval '5 minutes')) * 1000000)::bigint
        )
        ON CONFLICT (queue_id, key) DO UPDATE SET run_id = excluded.run_id, until = excluded.until
        WHERE k.until <= now AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.run_id = k.run_id);
        SELECT k.run_id INTO earlier FROM message_keys k WHERE k.queue_id = to_queue AND k.key = deduplication_key;
        IF earlier <> message THEN
            RETURN earlier;
        END IF;
    END IF;
    IF enqueue.ordering_key IS NOT NULL OR settings -> 'max_depth' IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(to_queue::text, 24));
        IF (SELECT count(*) FROM (SELECT 1 FROM runs WHERE job_id = to_queue LIMIT (settings ->> 'max_depth')::bigint) AS r)
            >= (settings ->> 'max_depth')::bigint
        THEN
            RAISE EXCEPTION 'queue "%" is full (max_depth = %)', enqueue.queue, settings ->> 'max_depth' USING ERRCODE = 'configuration_limit_exceeded';
        END IF;
        is_blocked := enqueue.ordering_key IS NOT NULL AND EXISTS (
            SELECT 1 FROM messages m WHERE m.queue_id = to_queue AND m.ordering_key = enqueue.ordering_key AND m.ordering_key IS NOT NULL
        );
    END IF;
    body := jsonb_strip_nulls(jsonb_build_object(
        'workspace', nullif(enqueue.workspace, ''), 'headers', enqueue.headers, 'ordering_key', enqueue.ordering_key,
        'deduplication_key', deduplication_key
    )) || jsonb_build_object('payload', enqueue.payload);
    INSERT INTO runs (
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin, coalesced,
        ignore_dependencies, parameters, attempts, lost, turn, wait, requested_by, created_at
    )
    VALUES (
        message, to_queue, of_job.tenant_id, of_job.version, due, '', due, due, rank, 7, 0, true, body::text, 0, 0, 0, 5,
        as_user, now
    );
    INSERT INTO messages (run_id, queue_id, at, order_at, expires_at, urgency, state, workspace, ordering_key)
    VALUES (
        message, to_queue, due, due,
        due + (extract(epoch FROM (settings ->> 'time_to_live')::interval) * 1000000)::bigint,
        9 - rank, CASE WHEN is_blocked THEN 3 WHEN due > now THEN 1 ELSE 0 END, enqueue.workspace, enqueue.ordering_key
    );
    INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
    VALUES (
        of_job.tenant_id, now, coalesce((SELECT i.name FROM identities i WHERE i.id = as_user), as_user::text), 'RUNS_REQUESTED',
        'REQUESTED', '', uuid_send(message) || uuid_send(to_queue) || int2send(7::smallint)
    );
    PERFORM pg_notify('punctual', '');
    RETURN message;
END 
enqueue_right(sender name, queue text) s u: 
BEGIN
    RETURN QUERY
    SELECT r.queue_id, r.user_id
    FROM enqueue_roles r
    JOIN jobs j ON j.id = r.queue_id AND j.state <> 'DELETED'
    JOIN identities u ON u.id = r.user_id
    WHERE r.role = sender AND j.name = queue;
END 
expect_rows(returned bigint, expected bigint) v u: 
BEGIN
    IF returned <> expected THEN
        RAISE EXCEPTION 'the statement returned % rows, expected %', returned, expected USING ERRCODE = 'PX001';
    END IF;
    RETURN true;
END 
forget_ended(sent uuid[], lowest uuid, highest uuid) v u: 
DECLARE
    ended uuid[];
BEGIN
    SELECT array_agg(h.id) INTO ended
    FROM unnest(sent) AS u (id), history h
    WHERE h.id BETWEEN u.id AND u.id AND h.id BETWEEN lowest AND highest AND h.outcome > 0;
    IF ended IS NOT NULL THEN
        DELETE FROM runs WHERE id = ANY (ended);
    END IF;
    RETURN ended;
END 
give_way() v u: 
BEGIN
    RAISE EXCEPTION 'a run began to wait while it was locked' USING ERRCODE = 'serialization_failure';
END 
lives(lock bigint, node uuid) v u: 
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock);
    RETURN EXISTS (SELECT 1 FROM nodes WHERE id = node AND NOT dead);
END 
record_effect(run uuid, claim_generation integer, secret text) v u: 
BEGIN
    PERFORM 1
    FROM runs r
    JOIN effect_keys k ON k.run_id = r.id
    WHERE r.id = run AND r.turn = claim_generation AND r.wait = 0 AND k.generation = claim_generation
        AND k.hash = sha256(convert_to(secret, 'UTF8'))
    FOR SHARE OF r;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim of run % has ended', run USING ERRCODE = 'PX002';
    END IF;
    INSERT INTO effects (run_id, generation, at) VALUES (run, claim_generation, clock());
    PERFORM set_config('idle_in_transaction_session_timeout', '10s', true);
END 

