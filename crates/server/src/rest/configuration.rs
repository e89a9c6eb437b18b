//! The settings that the answering node runs with.

use axum::Json;
use axum::extract::State;
use domain::access::{Deed, may};
use engine::EngineError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::actor::Actor;
use crate::app::App;
use crate::page::List;
use crate::problem::Result;

/// A setting of the node that answers.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ConfigurationEntry {
    /// Its name, as in the file of settings.
    pub name: String,
    /// Its value; `********` when it is a secret.
    pub value: String,
    /// Where the value comes from: a flag, a variable, a file or the default.
    pub origin: String,
    /// The meaning.
    pub meaning: String,
}

/// Shows the settings that the answering node runs with, for administrators of the cluster.
#[utoipa::path(
    get, path = "/v1/configuration", operation_id = "show_configuration", tag = "server",
    responses((status = 200, body = List<ConfigurationEntry>))
)]
pub(crate) async fn show(
    State(app): State<App>,
    actor: Actor,
) -> Result<Json<List<ConfigurationEntry>>> {
    may(&actor, Deed::ChangeCluster).map_err(EngineError::from)?;
    Ok(Json(List { data: app.options.configuration.clone(), next_cursor: None }))
}
