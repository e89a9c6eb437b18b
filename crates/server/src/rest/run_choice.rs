//! Which executions a list or a batch means, by what no index of the store has: the node that
//! executed them, and words of their errors. Rows are read and looked at here, so a rare match takes
//! several requests; pages say so with a cursor.

use domain::access::Deed;
use engine::RunView;

use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Problem, Result};

/// The longest text of a filter.
const TEXT_MAX: usize = 200;

/// Conditions on runs besides those of [`engine::RunFilter`].
pub(super) struct RunChoice {
    /// Name or id of the node.
    node: Option<String>,
    /// Part of the error or the reason, in lower case.
    error: Option<String>,
}

impl RunChoice {
    /// Reads the conditions of a request. `prefix` is where its fields are, such as `filter.`.
    pub fn read(
        actor: &Actor,
        prefix: &str,
        node: Option<&str>,
        error: Option<&str>,
    ) -> Result<Self> {
        let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let (node, error) = (given(node), given(error));
        for (name, text) in [("node", &node), ("error", &error)] {
            if text.as_ref().is_some_and(|text| text.len() > TEXT_MAX) {
                let text = format!("must have at most {TEXT_MAX} bytes");
                return Err(Problem::invalid(format!("{prefix}{name}"), text));
            }
        }
        if node.is_some() {
            actor.may(Deed::SeeNodes)?;
        }
        Ok(RunChoice { node, error: error.map(|text| text.to_lowercase()) })
    }

    /// Whether all runs are meant.
    pub fn is_plain(&self) -> bool {
        self.node.is_none() && self.error.is_none()
    }

    /// Takes away the runs that are not meant.
    pub async fn narrow(&self, app: &App, runs: &mut Vec<RunView>) -> Result<()> {
        if let Some(text) = &self.error {
            runs.retain(|run| has_error(run, text));
        }
        if let Some(wanted) = &self.node {
            let nodes = runs.iter().filter_map(|run| run.node);
            let names = app.node_names.find(&app.engine, nodes).await?;
            runs.retain(|run| {
                run.node.is_some_and(|node| {
                    names.get(&node) == Some(wanted) || node.0.to_string() == *wanted
                })
            });
        }
        Ok(())
    }
}

/// Whether an error or a reason contains a text that is in lower case.
fn has_error(run: &RunView, text: &str) -> bool {
    let message = run.message.as_ref().filter(|_| run.error.is_some());
    let texts = [message, run.error.as_ref(), run.reason.as_ref(), run.reason_text.as_ref()];
    texts.into_iter().flatten().any(|it| it.to_lowercase().contains(text))
}
