//! The keys of a cluster: one master key on all nodes, and an administrator's key that works on all.

use std::path::Path;

use server::Keys;
use vault::Vault;

use crate::cli_error::CliError;
use crate::data::MASTER_KEY;
use crate::exit::Failure;

/// Refuses a node whose master key is not that of the cluster: it could read no secret, and what it
/// sealed the other nodes could not read.
pub async fn check_master_key(vault: &Vault, data: &Path) -> Result<(), Failure> {
    match vault.has_cluster_key().await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let text = "the master key of this node is not that of the cluster";
            let file = data.join(MASTER_KEY);
            let hint = format!(
                "copy {MASTER_KEY} of a node that runs to {} (mode 0600), or give all nodes the \
                 same key with the setting master_key; see docs/cluster.md",
                file.display()
            );
            Err(Failure::Failed(CliError::new(text).hint(hint)))
        }
        Err(error) => {
            let text = format!("the master key could not be checked: {error}");
            Err(Failure::Failed(CliError::new(text)))
        }
    }
}

/// Makes the administrator's key of this node known to the others.
pub async fn share_admin_key(keys: &Keys, node: &str, data: &Path) {
    let label = format!("admin.key of {node} in {}", data.display());
    if let Err(problem) = keys.share_admin_key(&label).await {
        let problem = problem.message;
        tracing::warn!(problem, "the administrator key of this node is not valid on other nodes");
    }
}
