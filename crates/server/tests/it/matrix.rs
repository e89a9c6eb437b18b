//! Every route, asked by every kind of person: one table has the answers. A route that is missing
//! in it fails the test, and what is not yours is answered word for word like what is not there.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::auth::{PUBLIC, routes};
use crate::people::{Person, request};
use crate::world::{World, until};

/// No user; an administrator of another tenant; in the tenant of the resource: a user without
/// privileges, the owner of the job, one who sees history, one who executes, the administrator; the
/// administrator of the cluster.
const TABLE: &str = "
                                                   nobody stranger plain owner viewer executor admin cluster
GET    /metrics                                       401      403   403   403    403      403   403     200
POST   /v1/jobs                                       401      201   403   201    403      403   201     201
GET    /v1/jobs                                       401      200   200   200    200      200   200     200
POST   /v1/jobs:bulk                                  401      200   403   200    403      403   200     200
POST   /v1/jobs:batch                                 401      404   404   200    200      200   200     200
POST   /v1/jobs:validate                              401      200   403   200    403      403   200     200
GET    /v1/jobs/{job_id}                              401      404   404   200    200      200   200     200
PUT    /v1/jobs/{job_id}                              401      404   404   200    403      403   200     200
PATCH  /v1/jobs/{job_id}                              401      404   404   200    403      403   200     200
DELETE /v1/jobs/{job_id}                              401      404   404   204    403      403   204     204
POST   /v1/jobs/{job_id}/pause                        401      404   404   200    403      403   200     200
POST   /v1/jobs/{job_id}/resume                       401      404   404   200    403      403   200     200
POST   /v1/jobs/{job_id}/trigger                      401      404   404   202    403      202   202     202
POST   /v1/jobs/{job_id}/backfill                     401      404   404   202    403      202   202     202
GET    /v1/jobs/{job_id}/versions                     401      404   404   200    200      200   200     200
GET    /v1/jobs/{job_id}/versions/{version}           401      404   404   200    200      200   200     200
GET    /v1/jobs/{job_id}/diff                         401      404   404   200    200      200   200     200
GET    /v1/jobs/{job_id}/graph                        401      404   404   200    200      200   200     200
POST   /v1/jobs/{job_id}/restore                      401      404   404   200    403      403   200     200
GET    /v1/jobs/{job_id}/calendar                     401      404   404   200    200      200   200     200
GET    /v1/jobs/{job_id}/calendar/{date}              401      404   404   200    200      200   200     200
GET    /v1/jobs/{job_id}/next-runs                    401      404   404   200    200      200   200     200
GET    /v1/jobs/{job_id}/explain                      401      404   404   200    200      403   200     200
GET    /v1/jobs/{job_id}/executions                   401      404   404   200    200      200   200     200
GET    /v1/jobs/{job_id}/stats                        401      404   404   200    200      403   200     200
GET    /v1/executions                                 401      200   200   200    200      200   200     200
GET    /v1/executions/{execution_id}                  401      404   404   200    200      404   200     200
GET    /v1/executions/{execution_id}/attempts         401      404   404   200    200      404   200     200
GET    /v1/executions/{execution_id}/acknowledgements 401      404   404   200    200      404   200     200
GET    /v1/executions/{execution_id}/explain          401      404   404   200    200      404   200     200
GET    /v1/executions/{execution_id}/parts            401      404   404   200    200      404   200     200
GET    /v1/executions/{execution_id}/logs             401      404   404   200    200      404   200     200
GET    /v1/executions/{execution_id}/logs/index       401      404   404   200    200      404   200     200
GET    /v1/executions/{execution_id}/logs/search      401      404   404   200    200      404   200     200
POST   /v1/executions:batch                           401      404   404   200    200      404   200     200
POST   /v1/executions/{execution_id}/cancel           401      404   404   409    403      404   409     409
POST   /v1/executions/{execution_id}/retry            401      404   404   202    403      404   202     202
GET    /v1/dead-letters                               401      200   200   200    200      200   200     200
GET    /v1/dead-letters/groups                        401      200   200   200    200      200   200     200
POST   /v1/dead-letters:redrive                       401      200   200   200    200      200   200     200
POST   /v1/dead-letters:acknowledge                   401      200   200   200    200      200   200     200
GET    /v1/events                                     401      200   200   200    200      200   200     200
GET    /v1/stats                                      401      200   403   403    200      403   200     200
GET    /v1/stats/series                               401      200   403   403    200      403   200     200
GET    /v1/attention                                  401      200   200   200    200      200   200     200
GET    /v1/schedule                                   401      200   200   200    200      200   200     200
GET    /v1/schedule/heat                              401      200   200   200    200      200   200     200
POST   /v1/schedule:preview                           401      200   200   200    200      200   200     200
POST   /v1/schedule:simulate                          401      404   404   200    200      200   200     200
POST   /v1/agent-tokens                               401      403   403   403    403      403   403     201
GET    /v1/agent-tokens                               401      403   403   403    403      403   403     200
DELETE /v1/agent-tokens/{token_id}                    401      403   403   403    403      403   403     404
GET    /v1/configuration                              401      403   403   403    403      403   403     200
GET    /v1/nodes                                      401      200   403   403    403      403   200     200
GET    /v1/shards                                     401      200   403   403    403      403   200     200
POST   /v1/shards                                     401      403   403   403    403      403   403     201
GET    /v1/shards/{name}                              401      404   403   403    403      403   200     200
PATCH  /v1/shards/{name}                              401      403   403   403    403      403   403     200
DELETE /v1/shards/{name}                              401      403   403   403    403      403   403     204
GET    /v1/calendars                                  401      200   403   200    403      403   200     200
POST   /v1/calendars                                  401      201   403   403    403      403   201     201
GET    /v1/calendars/{name}                           401      404   403   200    403      403   200     200
PUT    /v1/calendars/{name}                           401      404   403   403    403      403   200     200
PATCH  /v1/calendars/{name}                           401      404   403   403    403      403   200     200
DELETE /v1/calendars/{name}                           401      404   403   403    403      403   204     204
GET    /v1/blackouts                                  401      200   403   200    403      403   200     200
POST   /v1/blackouts                                  401      201   403   403    403      403   201     201
GET    /v1/blackouts/{name}                           401      404   403   200    403      403   200     200
PUT    /v1/blackouts/{name}                           401      404   403   403    403      403   200     200
DELETE /v1/blackouts/{name}                           401      404   403   403    403      403   204     204
GET    /v1/pause                                      401      200   403   200    403      403   200     200
PUT    /v1/pause                                      401      200   403   403    403      403   200     200
DELETE /v1/pause                                      401      409   403   403    403      403   409     409
POST   /v1/executions/{execution_id}/decide           401      404   404   409    403      404   409     409
GET    /v1/pools                                      401      200   403   403    403      403   200     200
POST   /v1/pools                                      401      201   403   403    403      403   201     201
GET    /v1/pools/{name}                               401      404   403   403    403      403   200     200
PATCH  /v1/pools/{name}                               401      404   403   403    403      403   200     200
DELETE /v1/pools/{name}                               401      404   403   403    403      403   204     204
GET    /v1/status-pages                               401      200   403   403    403      403   200     200
POST   /v1/status-pages                               401      201   403   403    403      403   201     201
GET    /v1/status-pages/{name}                        401      404   403   403    403      403   200     200
PATCH  /v1/status-pages/{name}                        401      404   403   403    403      403   200     200
DELETE /v1/status-pages/{name}                        401      404   403   403    403      403   204     204
GET    /v1/whoami/preferences                         401      200   200   200    200      200   200     200
PUT    /v1/whoami/preferences                         401      200   200   200    200      200   200     200
GET    /v1/hooks                                      401      200   403   403    403      403   200     200
POST   /v1/hooks                                      401      404   403   403    403      403   201     201
GET    /v1/hooks/{hook}                               401      404   403   403    403      403   200     200
PATCH  /v1/hooks/{hook}                               401      404   403   403    403      403   200     200
DELETE /v1/hooks/{hook}                               401      404   403   403    403      403   204     204
POST   /v1/hooks/{hook}/rotate                        401      404   403   403    403      403   200     200
POST   /v1/hooks/{hook}                               401      401   401   401    401      401   401     401
GET    /v1/dags                                       401      200   200   200    200      200   200     200
POST   /v1/dags                                       401      201   403   201    403      403   201     201
POST   /v1/dags/validate                              401      200   403   200    403      403   200     200
GET    /v1/dags/{dag_id}                              401      404   404   200    200      200   200     200
PUT    /v1/dags/{dag_id}                              401      404   404   200    403      403   200     200
PATCH  /v1/dags/{dag_id}                              401      404   404   200    403      403   200     200
DELETE /v1/dags/{dag_id}                              401      404   404   204    403      403   204     204
POST   /v1/dags/{dag_id}/pause                        401      404   404   200    403      403   200     200
POST   /v1/dags/{dag_id}/resume                       401      404   404   200    403      403   200     200
POST   /v1/dags/{dag_id}/trigger                      401      404   404   202    403      202   202     202
POST   /v1/dags/{dag_id}/backfill                     401      404   404   202    403      202   202     202
GET    /v1/dags/{dag_id}/runs                         401      404   404   200    200      200   200     200
GET    /v1/dags/{dag_id}/grid                         401      404   404   200    200      200   200     200
GET    /v1/dag-runs                                   401      200   200   200    200      200   200     200
GET    /v1/dag-runs/verify                            401      200   403   403    200      403   200     200
GET    /v1/dag-runs/{dag_run_id}                      401      404   404   200    200      404   200     200
POST   /v1/dag-runs/{dag_run_id}/cancel               401      404   404   202    403      404   202     202
POST   /v1/dag-runs/{dag_run_id}/resume               401      404   404   409    403      404   409     409
POST   /v1/dag-runs/{dag_run_id}/rerun                401      404   404   409    403      404   409     409
POST   /v1/dag-runs/{dag_run_id}/replay               401      404   404   200    200      404   200     200
GET    /v1/dag-runs/{dag_run_id}/diff                 401      404   404   200    200      404   200     200
GET    /v1/dag-runs/{dag_run_id}/columns              401      404   404   200    200      404   200     200
GET    /v1/dag-runs/{dag_run_id}/explain              401      404   404   200    200      404   200     200
GET    /v1/dag-runs/{dag_run_id}/tasks/{task}         401      404   404   200    200      404   200     200
GET    /v1/dag-runs/{dag_run_id}/tasks/{task}/explain 401      404   404   200    200      404   200     200
POST   /v1/dag-runs/{dag_run_id}/tasks/{task}/mark    401      404   404   200    403      404   200     200
POST   /v1/dag-runs/{dag_run_id}/tasks/{task}/decide  401      404   404   200    403      404   200     200
GET    /v1/queues                                     401      200   200   200    200      200   200     200
POST   /v1/queues                                     401      201   403   201    403      403   201     201
GET    /v1/queues/{queue}                             401      404   404   200    200      200   200     200
GET    /v1/queues/{queue}/stats                       401      404   404   200    200      200   200     200
PUT    /v1/queues/{queue}                             401      404   404   200    403      403   200     200
PATCH  /v1/queues/{queue}                             401      404   404   200    403      403   200     200
DELETE /v1/queues/{queue}                             401      404   404   409    403      403   409     409
POST   /v1/queues/{queue}/pause                       401      404   404   200    403      403   200     200
POST   /v1/queues/{queue}/resume                      401      404   404   200    403      403   200     200
POST   /v1/queues/{queue}/messages                    401      404   404   200    403      200   200     200
GET    /v1/queues/{queue}/messages                    401      404   404   200    200      200   200     200
POST   /v1/queues/{queue}/lease                       401      404   404   200    403      200   200     200
POST   /v1/queues/{queue}/ack                         401      404   404   409    403      409   409     409
POST   /v1/queues/{queue}/nack                        401      404   404   409    403      409   409     409
POST   /v1/queues/{queue}/fail                        401      404   404   409    403      409   409     409
POST   /v1/queues/{queue}/extend                      401      404   404   409    403      409   409     409
GET    /v1/queues/{queue}/messages/{message}          401      404   404   200    200      200   200     200
DELETE /v1/queues/{queue}/messages/{message}          401      404   404   200    403      200   200     200
GET    /v1/queues/{queue}/dead-letters                401      404   404   200    200      200   200     200
POST   /v1/queues/{queue}/dead-letters/redrive        401      404   404   200    403      200   200     200
POST   /v1/queues/{queue}/dead-letters/purge          401      404   404   200    403      200   200     200
POST   /v1/queues/{queue}/drain                       401      404   404   200    403      403   200     200
PUT    /v1/queues/{queue}/schedules/{workspace}       401      404   404   200    403      403   200     200
DELETE /v1/queues/{queue}/schedules/{workspace}       401      404   404   204    403      403   204     204
GET    /v1/queues/{queue}/workspaces                  401      404   404   200    200      200   200     200
GET    /v1/queues/{queue}/workers                     401      404   404   200    403      200   200     200
GET    /v1/queues/{queue}/messages/{message}/explain  401      404   404   200    200      200   200     200
POST   /v1/workers/{session}/poll                     401      404   404   200    403      200   200     200
PUT    /v1/workers/{session}                          401      404   404   404    404      404   404     404
DELETE /v1/nodes/{node}                               401      403   403   403    403      403   403     404
POST   /v1/nodes/{node}/drain                         401      403   403   403    403      403   403     404
POST   /v1/nodes/{node}/resume                        401      403   403   403    403      403   403     404
GET    /v1/settings                                   401      403   403   403    403      403   403     200
PUT    /v1/settings/{name}                            401      403   403   403    403      403   403     200
DELETE /v1/settings/{name}                            401      403   403   403    403      403   403     204
GET    /v1/databases                                  401      200   403   403    403      403   200     200
POST   /v1/databases                                  401      403   403   403    403      403   403     201
GET    /v1/databases/{name}                           401      404   403   403    403      403   200     200
PUT    /v1/databases/{name}                           401      403   403   403    403      403   403     200
PATCH  /v1/databases/{name}                           401      403   403   403    403      403   403     200
DELETE /v1/databases/{name}                           401      403   403   403    403      403   403     204
POST   /v1/databases/{name}/test                      401      404   403   403    403      403   200     200
GET    /v1/alert-channels                             401      200   403   403    403      403   200     200
POST   /v1/alert-channels                             401      201   403   403    403      403   201     201
GET    /v1/alert-channels/{name}                      401      404   403   403    403      403   200     200
PUT    /v1/alert-channels/{name}                      401      404   403   403    403      403   200     200
PATCH  /v1/alert-channels/{name}                      401      404   403   403    403      403   200     200
DELETE /v1/alert-channels/{name}                      401      404   403   403    403      403   204     204
POST   /v1/alert-channels/{name}/test                 401      404   403   403    403      403   200     200
GET    /v1/alert-channels/{name}/deliveries           401      404   403   403    403      403   200     200
POST   /v1/backups                                    401      403   403   403    403      403   403     501
GET    /v1/backup                                     401      403   403   403    403      403   403     501
GET    /v1/whoami                                     401      200   200   200    200      200   200     200
POST   /v1/whoami/password                            401      403   403   403    403      403   403     403
GET    /v1/tenants                                    401      200   403   403    403      403   200     200
POST   /v1/tenants                                    401      403   403   403    403      403   403     201
GET    /v1/tenants/{tenant}                           401      404   404   404    404      404   404     200
PATCH  /v1/tenants/{tenant}                           401      404   404   404    404      404   404     200
DELETE /v1/tenants/{tenant}                           401      404   404   404    404      404   404     204
GET    /v1/users                                      401      200   403   403    403      403   200     200
POST   /v1/users                                      401      201   403   403    403      403   201     201
GET    /v1/users/{user}                               401      404   404   404    404      404   200     200
PATCH  /v1/users/{user}                               401      404   404   404    404      404   200     200
DELETE /v1/users/{user}                               401      404   404   404    404      404   204     204
GET    /v1/roles                                      401      200   403   403    403      403   200     200
POST   /v1/roles                                      401      201   403   403    403      403   201     201
GET    /v1/roles/{role}                               401      404   404   404    404      404   200     200
PATCH  /v1/roles/{role}                               401      404   404   404    404      404   200     200
DELETE /v1/roles/{role}                               401      404   404   404    404      404   204     204
GET    /v1/grants                                     401      200   403   403    403      403   200     200
POST   /v1/grants                                     401      404   404   404    404      404   201     201
GET    /v1/grants/{grant_id}                          401      404   403   403    403      403   200     200
DELETE /v1/grants/{grant_id}                          401      404   403   403    403      403   204     204
GET    /v1/keys                                       401      200   200   200    200      200   200     200
POST   /v1/keys                                       401      201   201   201    201      201   201     201
GET    /v1/keys/{key_id}                              401      404   404   404    404      404   200     200
PATCH  /v1/keys/{key_id}                              401      404   404   404    404      404   200     200
DELETE /v1/keys/{key_id}                              401      404   404   404    404      404   204     204
GET    /v1/secrets                                    401      200   403   403    403      403   200     200
GET    /v1/secrets/{secret}                           401      404   403   403    403      403   200     200
PUT    /v1/secrets/{secret}                           401      201   403   403    403      403   200     200
DELETE /v1/secrets/{secret}                           401      404   403   403    403      403   204     204
POST   /v1/secrets:rotate-master                      401      403   403   403    403      403   403     200
GET    /v1/audit                                      401      200   403   403    403      403   200     200
POST   /v1/audit:verify                               401      200   403   403    403      403   200     200
GET    /v1/artifacts                                  401      200   403   403    403      403   200     200
POST   /v1/artifacts/{artifact}/versions              401      409   403   403    403      403   409     409
GET    /v1/artifacts/{artifact}/versions/{version}    401      404   403   403    403      403   200     200
DELETE /v1/artifacts/{artifact}/versions/{version}    401      404   403   403    403      403   204     204
GET    /v1/artifacts/{artifact}/versions/{version}/content 401 404   403   403    403      403   403     200
GET    /v1/artifacts/{artifact}/uploads/{digest}      401      200   403   403    403      403   200     200
PUT    /v1/artifacts/{artifact}/uploads/{digest}      401      200   403   403    403      403   200     200
POST   /v1/sql                                        401      200   403   200    403      403   200     200
";

/// A method and a path.
type Route = (&'static str, &'static str);

/// The answers by route, and who they are for.
fn table() -> (Vec<&'static str>, BTreeMap<Route, Vec<u16>>) {
    let mut lines = TABLE.lines().filter(|line| !line.trim().is_empty());
    let people = lines.next().unwrap().split_whitespace().collect();
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        let route = (words.next().unwrap(), words.next().unwrap());
        (route, words.map(|word| word.parse().unwrap()).collect())
    };
    (people, lines.map(row).collect())
}

/// One object of every kind, for the requests until one of them changes something.
pub struct Things(BTreeMap<&'static str, String>);

impl Things {
    async fn new(world: &World, owner: &Person, n: usize) -> Self {
        let name = format!("thing-{n}");
        let job = json!({
            "name": name, "job_type": "CRON", "cron_expression": "0 0 * * *",
            "payload": {"endpoint": "http://fail"}, "retry_config": {"max_attempts": 1},
        });
        let reply = world.ask(owner, "POST", "/v1/jobs", job).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        let job = word(&reply.json(), "job_id");
        let path = format!("/v1/jobs/{job}/trigger");
        let run = word(&world.ask(owner, "POST", &path, Value::Null).await.json(), "execution_id");
        let tenant = &owner.tenant;
        let made = async |path: &str, body: Value, id: &str| {
            word(&world.rule(tenant, "POST", path, body).await, id)
        };
        let user = made("/v1/users", json!({"name": name}), "user_id").await;
        let role = made("/v1/roles", json!({"name": name}), "role_id").await;
        let grant = json!({"to_role": name, "privilege": "DROP JOB"});
        let grant = made("/v1/grants", grant, "grant_id").await;
        let key = made("/v1/keys", json!({"user": name}), "key_id").await;
        let elsewhere = made("/v1/tenants", json!({"name": name}), "tenant_id").await;
        world.rule(tenant, "PUT", &format!("/v1/settings/{name}"), json!({"value": 1})).await;
        made("/v1/databases", database(&name), "database_id").await;
        made("/v1/alert-channels", channel(&name), "channel_id").await;
        made("/v1/shards", json!({"name": name}), "shard_id").await;
        made("/v1/calendars", calendar(&name), "calendar_id").await;
        made("/v1/blackouts", blackout(&name), "blackout_id").await;
        made("/v1/pools", json!({"name": name, "size": 1}), "pool_id").await;
        let page = json!({"name": name, "title": "Status", "tags": ["public"]});
        made("/v1/status-pages", page, "status_page_id").await;
        let hook = made("/v1/hooks", json!({"name": name, "job": job}), "hook_id").await;
        let queue = format!("queue-{n}");
        let reply = world.ask(owner, "POST", "/v1/queues", json!({"name": queue})).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        let path = format!("/v1/queues/{queue}/messages");
        let sent = world.ask(owner, "POST", &path, json!({"payload": 1})).await.json();
        let message = word(&sent["messages"][0], "id");
        let path = format!("/v1/queues/{queue}/schedules/workspace-{n}");
        let week = json!({"interval_seconds": 604_800, "data": 1});
        assert_eq!(world.ask(owner, "PUT", &path, week).await.status, 201);
        let dag = json!({"name": format!("dag-{n}"), "tasks": [
            {"name": "ask", "payload": {"type": "APPROVAL"}},
        ], "cron_expression": "0 0 * * *"});
        let reply = world.ask(owner, "POST", "/v1/dags", dag).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        let dag = word(&reply.json(), "dag_id");
        let path = format!("/v1/dags/{dag}/trigger");
        let started = world.ask(owner, "POST", &path, Value::Null).await.json();
        let dag_run = word(&started, "dag_run_id");
        let artifact = format!("artifact-{n}");
        crate::artifacts::push(world, tenant, &artifact, &artifact).await;
        let secret = format!("SECRET_{n}");
        let value = json!({"value": "something to keep"});
        world.rule(tenant, "PUT", &format!("/v1/secrets/{secret}"), value).await;
        // The run has ended and is a dead letter; the DAG run waits for an approval.
        world.ended_in(tenant, &run).await;
        let path = format!("/v1/dag-runs/{dag_run}");
        until(|| async {
            let seen = world.ask(owner, "GET", &path, Value::Null).await;
            assert_eq!(seen.status, 200, "{}", seen.text);
            let task = &seen.json()["tasks"][0];
            (task["status"] != "PENDING").then_some(())
        })
        .await;
        Things(BTreeMap::from([
            ("{job_id}", job),
            ("{execution_id}", run),
            ("{user}", user),
            ("{role}", role),
            ("{grant_id}", grant),
            ("{key_id}", key),
            ("{tenant}", elsewhere),
            ("{secret}", secret),
            ("{artifact}", artifact),
            ("{name}", name),
            ("{dag_id}", dag),
            ("{dag_run_id}", dag_run),
            ("{queue}", queue),
            ("{hook}", hook),
            ("{message}", message),
            ("{workspace}", format!("workspace-{n}")),
            ("{session}", format!("session-{n}")),
            ("{token_id}", format!("70c3{n:012x}")),
            // Draining the only node would keep the others from their runs.
            ("{node}", "018f0000-0000-7000-8000-00000000beef".to_owned()),
        ]))
    }

    /// Unknown ids of the same shape.
    fn absent() -> Self {
        let id = "018f0000-0000-7000-8000-00000000dead".to_owned();
        let of = |place: &&'static str| match *place {
            "{key_id}" | "{token_id}" => (*place, "00000000deadbeef".to_owned()),
            "{name}" | "{secret}" | "{queue}" | "{artifact}" => (*place, "nothing".to_owned()),
            _ => (*place, id.clone()),
        };
        let places = [
            "{job_id}",
            "{execution_id}",
            "{user}",
            "{role}",
            "{grant_id}",
            "{key_id}",
            "{tenant}",
            "{secret}",
            "{artifact}",
            "{name}",
            "{dag_id}",
            "{dag_run_id}",
            "{queue}",
            "{hook}",
            "{message}",
            "{workspace}",
            "{session}",
            "{node}",
            "{token_id}",
        ];
        Things(places.iter().map(of).collect())
    }

    fn put_into(&self, path: &str) -> String {
        let path = path.replace("{version}", "1").replace("{date}", "2026-03-29");
        let path = path.replace("{task}", "ask").replace("{digest}", &"0".repeat(64));
        let path = match path.as_str() {
            "/v1/dag-runs/{dag_run_id}/diff" => format!("{path}?with={{dag_run_id}}"),
            "/v1/executions/{execution_id}/logs/search" => format!("{path}?q=x"),
            _ => path,
        };
        self.0.iter().fold(path, |path, (place, id)| path.replace(place, id))
    }

    /// Without what was named.
    fn take_out_of(&self, text: &str) -> String {
        self.0.values().fold(text.to_owned(), |text, id| text.replace(id.as_str(), "ID"))
    }

    /// The body that a route needs to succeed.
    fn body(&self, method: &str, path: &str, n: usize) -> Option<Value> {
        let named = json!({"name": format!("new-{n}")});
        let job = json!({
            "name": format!("new-{n}"), "job_type": "MANUAL", "payload": {"type": "NOOP"},
        });
        let runs = json!({"execution_ids": [self.0["{execution_id}"]]});
        Some(match (method, path) {
            ("POST", "/v1/jobs" | "/v1/jobs:validate") | ("PUT", "/v1/jobs/{job_id}") => job,
            ("POST", "/v1/jobs:bulk") => json!([job]),
            ("POST", "/v1/jobs:batch") => {
                json!({"action": "PAUSE", "job_ids": [self.0["{job_id}"]]})
            }
            ("POST", "/v1/executions:batch") => {
                json!({"action": "RETRY", "execution_ids": [self.0["{execution_id}"]]})
            }
            ("POST", "/v1/schedule:simulate") => {
                json!({"changes": [{"job": self.0["{job_id}"], "patch": {"jitter_seconds": 60}}]})
            }
            ("POST", "/v1/status-pages") => {
                json!({"name": format!("new-{n}"), "title": "Status", "tags": ["public"]})
            }
            ("PATCH", "/v1/status-pages/{name}") => json!({"is_public": true}),
            ("PUT", "/v1/whoami/preferences") => json!({"values": {"views": []}}),
            ("POST", "/v1/schedule:preview") => json!({"cron_expression": "0 2 * * *"}),
            ("PATCH", "/v1/jobs/{job_id}") => json!({"description": "changed"}),
            ("POST", "/v1/jobs/{job_id}/restore") => json!({"version": 1}),
            ("POST", "/v1/jobs/{job_id}/backfill") => {
                json!({"from": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"})
            }
            ("POST", "/v1/dead-letters:redrive" | "/v1/dead-letters:acknowledge") => runs,
            ("PUT", "/v1/settings/{name}") => json!({"value": 2}),
            ("POST", "/v1/databases") | ("PUT", "/v1/databases/{name}") => {
                database(&format!("new-{n}"))
            }
            ("POST", "/v1/alert-channels") | ("PUT", "/v1/alert-channels/{name}") => {
                channel(&format!("new-{n}"))
            }
            ("PATCH", "/v1/databases/{name}" | "/v1/calendars/{name}") => {
                json!({"description": "changed"})
            }
            ("POST", "/v1/calendars") | ("PUT", "/v1/calendars/{name}") => {
                calendar(&format!("new-{n}"))
            }
            ("POST", "/v1/blackouts") | ("PUT", "/v1/blackouts/{name}") => {
                blackout(&format!("new-{n}"))
            }
            ("PUT", "/v1/pause") => json!({"reason": "maintenance"}),
            ("PATCH", "/v1/alert-channels/{name}") => json!({"enabled": false}),
            ("POST", "/v1/tenants" | "/v1/users" | "/v1/roles" | "/v1/shards") => named,
            ("POST", "/v1/dags" | "/v1/dags/validate") | ("PUT", "/v1/dags/{dag_id}") => json!({
                "name": format!("new-{n}"), "tasks": [{"name": "a", "payload": {"type": "NOOP"}}],
                "cron_expression": "0 0 * * *",
            }),
            ("PATCH", "/v1/dags/{dag_id}") => json!({"description": "changed"}),
            ("POST", "/v1/dags/{dag_id}/backfill") => {
                json!({"from": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"})
            }
            ("POST", "/v1/dag-runs/{dag_run_id}/rerun") => json!({"dry_run": true}),
            ("POST", "/v1/dag-runs/{dag_run_id}/tasks/{task}/mark") => {
                json!({"status": "COMPLETED"})
            }
            ("POST", "/v1/dag-runs/{dag_run_id}/tasks/{task}/decide") => {
                json!({"answer": "APPROVE"})
            }
            ("POST", "/v1/queues") => named,
            ("PUT", "/v1/queues/{queue}") => json!({"name": self.0["{queue}"]}),
            ("PATCH", "/v1/queues/{queue}") => json!({"description": "changed"}),
            ("POST", "/v1/queues/{queue}/messages") => json!({"payload": 1}),
            ("POST", "/v1/queues/{queue}/lease") => json!({}),
            ("PUT", "/v1/queues/{queue}/schedules/{workspace}") => json!({"interval_seconds": 60}),
            ("POST", "/v1/workers/{session}/poll") => {
                json!({"seq": 1, "want": 1, "queues": [self.0["{queue}"]]})
            }
            ("PUT", "/v1/workers/{session}") => json!({"state": "QUIET"}),
            ("POST", "/v1/queues/{queue}/dead-letters/redrive") => json!({"rate_per_second": 10}),
            ("POST", "/v1/queues/{queue}/dead-letters/purge") => json!({"dry_run": true}),
            (
                "POST",
                "/v1/queues/{queue}/ack"
                | "/v1/queues/{queue}/nack"
                | "/v1/queues/{queue}/fail"
                | "/v1/queues/{queue}/extend",
            ) => json!({"messages": [{"id": self.0["{message}"], "fence": 1}]}),
            ("PATCH", "/v1/shards/{name}") => json!({"database": "changed"}),
            ("POST", "/v1/executions/{execution_id}/decide") => json!({"answer": "RETRY"}),
            ("POST", "/v1/pools") => json!({"name": format!("new-{n}"), "size": 1}),
            ("PATCH", "/v1/pools/{name}") => json!({"size": 2}),
            ("POST", "/v1/hooks") => {
                json!({"name": format!("new-{n}"), "job": self.0["{job_id}"]})
            }
            ("PATCH", "/v1/hooks/{hook}") => json!({"requests_per_second": 2}),
            ("PATCH", "/v1/tenants/{tenant}") => json!({"tier": "PREMIUM"}),
            ("PATCH", "/v1/users/{user}") => json!({"disabled": true}),
            ("PATCH", "/v1/roles/{role}") => json!({"description": "changed"}),
            ("PATCH", "/v1/keys/{key_id}") => json!({"label": "changed"}),
            ("POST", "/v1/grants") => {
                json!({"to_user": self.0["{user}"], "privilege": "CREATE JOB"})
            }
            ("POST", "/v1/backups") => json!({"target": "nightly"}),
            ("PUT", "/v1/secrets/{secret}") => json!({"value": "something else"}),
            ("POST", "/v1/keys") => json!({}),
            ("POST", "/v1/whoami/password") => {
                json!({"old_password": "nobody has one", "new_password": "another one"})
            }
            ("POST", "/v1/artifacts/{artifact}/versions") => json!({"digest": "0".repeat(64)}),
            ("POST", "/v1/sql") => json!({"sql": format!("CREATE JOB new_{n} AS NOOP")}),
            _ => return None,
        })
    }
}

fn database(name: &str) -> Value {
    json!({"name": name, "url": "postgres://user@db.example.com/reports"})
}

fn calendar(name: &str) -> Value {
    json!({"name": name, "days": ["SUN"]})
}

fn blackout(name: &str) -> Value {
    json!({"name": name, "from": "2020-01-01T00:00:00Z", "until": "2020-01-02T00:00:00Z"})
}

fn channel(name: &str) -> Value {
    json!({
        "name": name, "url": "https://hooks.example.com/x",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    })
}

fn word(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field}: {value}")).to_owned()
}

/// The status and the text; a stream is not waited for.
async fn answer(
    world: &World,
    key: Option<&str>,
    tenant: Option<&str>,
    route: (&str, &str),
    things: &Things,
    n: usize,
) -> (u16, String) {
    let (method, path) = route;
    let headers: Vec<_> = tenant.map(|tenant| ("punctual-tenant", tenant)).into_iter().collect();
    let body = things.body(method, path, n);
    let request = request(key, method, &things.put_into(path), &headers, body);
    let response = world.router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    if path == "/v1/events" && status == 200 {
        return (status, String::new());
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_each_user_as_the_table_says() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.tenant("acme").await;
    world.tenant("other").await;
    let owns = ["CREATE JOB", "ALTER JOB", "DROP JOB", "EXECUTE JOB"];
    let owner = world.person("acme", "owner", &owns).await;
    let keys: BTreeMap<&str, Option<String>> = BTreeMap::from([
        ("nobody", None),
        ("stranger", Some(world.person("other", "boss", &["ADMINISTER TENANT"]).await.key)),
        ("plain", Some(world.person("acme", "plain", &[]).await.key)),
        ("owner", Some(owner.key.clone())),
        ("viewer", Some(world.person("acme", "viewer", &["VIEW JOB HISTORY"]).await.key)),
        ("executor", Some(world.person("acme", "executor", &["EXECUTE JOB"]).await.key)),
        ("admin", Some(world.person("acme", "boss", &["ADMINISTER TENANT"]).await.key)),
        ("cluster", Some(world.key.clone())),
    ]);
    let (people, table) = table();
    let mut wrong = Vec::new();
    let mut asked = 0;
    let mut things = Things::new(&world, &owner, asked).await;
    for (method, path) in routes() {
        if PUBLIC.contains(&path.as_str()) {
            continue;
        }
        let row = table.get(&(method.as_str(), path.as_str()));
        let row = row.unwrap_or_else(|| panic!("the table says nothing about {method} {path}"));
        for (person, expected) in people.iter().zip(row) {
            asked += 1;
            let (key, route) = (keys[person].as_deref(), (method.as_str(), path.as_str()));
            let tenant = (*person == "cluster").then_some("acme");
            let (status, text) = answer(&world, key, tenant, route, &things, asked).await;
            if status != *expected {
                wrong.push(format!("{method} {path} {person}: {status} not {expected}: {text}"));
                things = Things::new(&world, &owner, asked).await;
                continue;
            }
            if status == 404 {
                // A resource of another tenant is answered like an unknown one.
                let absent = Things::absent();
                let (same, words) = answer(&world, key, tenant, route, &absent, asked).await;
                let (text, words) = (things.take_out_of(&text), absent.take_out_of(&words));
                if (same, &words) != (status, &text) {
                    wrong.push(format!("{method} {path} {person}: {text} differs from {words}"));
                }
            }
            if ["stranger", "plain"].contains(person) && status == 200 {
                // A number and a day are no names of anything.
                let is_name = |place: &&str| !["{version}", "{date}"].contains(place);
                let names = things.0.iter().filter(|(place, _)| is_name(place));
                let named: Vec<&String> =
                    names.map(|(_, id)| id).filter(|id| text.contains(id.as_str())).collect();
                // A batch repeats the ids of the request, with an error for each.
                let echo = path.starts_with("/v1/dead-letters:");
                if !(named.is_empty() || echo && text.contains("\"ok\":false")) {
                    wrong.push(format!("{method} {path} {person} is told of {named:?}"));
                }
            }
            // A request that was refused has left everything as it was for the next one.
            if method != "GET" && status < 300 {
                things = Things::new(&world, &owner, asked).await;
            }
        }
    }
    assert_eq!(table.len() * people.len(), asked, "a row of the table is about no route");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
