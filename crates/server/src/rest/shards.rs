//! Shards: slices of data, who owns them, and where their statements work.

use std::collections::{BTreeMap, HashMap};

use domain::cluster::Labels;
use domain::id::{NodeId, ObjectId};
use domain::object::{Object, ObjectKind};
use domain::shard::ShardBody;
use engine::OwnedShard;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::{Fresh, Kept, body_of};
use super::resource::{Resource, ResourceDocs};
use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Problem, Result};

/// A shard.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardSpec {
    /// One in a tenant.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        example = "shard_001"
    )]
    pub name: String,
    /// The database in which statements of its runs work; that of the job when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The name of the only node that may own it; any may when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Labels of the nodes that may own it; all may when there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub labels: BTreeMap<String, String>,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A shard as it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShardView {
    /// Its identity.
    pub shard_id: Uuid,
    /// Its name.
    pub name: String,
    /// The database in which statements of its runs work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The name of the only node that may own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Labels of the nodes that may own it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub labels: BTreeMap<String, String>,
    /// The node that owns it; absent while none may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<Uuid>,
    /// The name of that node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Grows each time that it moves.
    pub fence: i64,
    /// Since when its owner owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owned_since: Option<Timestamp>,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Kept for ShardBody {
    fn sealed(&self) -> Vec<&str> {
        Vec::new()
    }
}

fn view(shard: &OwnedShard, names: &HashMap<NodeId, String>) -> Result<ShardView> {
    let object = &shard.object;
    let ShardBody { database, node, labels } = body_of(object)?;
    Ok(ShardView {
        shard_id: object.id.0,
        name: object.name.clone(),
        database,
        node,
        labels: labels.0,
        owner_id: shard.owner.node.map(|node| node.0),
        owner: shard.owner.node.and_then(|node| names.get(&node).cloned()),
        fence: shard.owner.fence,
        owned_since: shard.since,
        version: object.version,
        created_at: object.created_at,
        updated_at: object.changed_at,
    })
}

/// Shards as a resource.
pub(crate) struct Shards;

impl Resource for Shards {
    const KIND: ObjectKind = ObjectKind::Shard;
    const DOCS: ResourceDocs = ResourceDocs {
        path: "/v1/shards",
        parameter: "name",
        tag: "shards",
        word: "shard",
        ids: ("shard", "shards"),
        get_id: "get_shard",
        is_paged: false,
        create: Some("Makes a shard. The leader finds an owner for it."),
        list: "Lists shards by name, with their owners.",
        get: "Shows a shard with its owner.",
        replace: None,
        patch: Some("Changes some fields of a shard (RFC 7396)."),
        delete: "Removes a shard. Runs that wait for it fail when they are started.",
    };
    type Spec = ShardSpec;
    type Body = ShardBody;
    type View = ShardView;

    fn name_and_version(spec: &ShardSpec) -> (&str, Option<u32>) {
        (&spec.name, spec.version)
    }

    fn spec(object: &Object) -> Result<ShardSpec> {
        let ShardBody { database, node, labels } = body_of(object)?;
        Ok(ShardSpec { name: object.name.clone(), database, node, labels: labels.0, version: None })
    }

    async fn body(
        _: &App,
        _: &Actor,
        spec: &ShardSpec,
        _: Option<ShardBody>,
    ) -> Result<(ShardBody, Vec<Fresh>)> {
        for (field, word) in [("database", &spec.database), ("node", &spec.node)] {
            if word.as_ref().is_some_and(String::is_empty) {
                return Err(Problem::invalid(field, "must not be empty; leave it out instead"));
            }
        }
        let labels = Labels(spec.labels.clone());
        labels.check().map_err(|error| Problem::invalid("labels", error.to_string()))?;
        let (database, node) = (spec.database.clone(), spec.node.clone());
        Ok((ShardBody { database, node, labels }, Vec::new()))
    }

    async fn views(app: &App, actor: &Actor, objects: &[Object]) -> Result<Vec<ShardView>> {
        let engine = app.engine.by(actor);
        let names = engine.nodes().await?;
        let names: HashMap<NodeId, String> =
            names.into_iter().map(|node| (node.id, node.info.name)).collect();
        let owned = engine.shards().await?;
        let owned: HashMap<ObjectId, &OwnedShard> =
            owned.iter().map(|shard| (shard.object.id, shard)).collect();
        // One that was removed in between is left out.
        let found = objects.iter().filter_map(|object| owned.get(&object.id).copied());
        found.map(|shard| view(shard, &names)).collect()
    }
}
