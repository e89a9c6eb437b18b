//! Versions of artifacts.

use domain::access::Deed;
use domain::artifact::{ArtifactReference, ArtifactVersion};
use store::{Page, PushedArtifact};

use super::AuthorizedEngine;
use crate::artifacts::no_artifact;
use crate::error::{EngineError, Result};

impl AuthorizedEngine<'_> {
    /// Whether the actor may push artifacts.
    pub fn may_push_artifacts(&self) -> Result<()> {
        self.may(Deed::PushArtifact)
    }

    /// Whether the actor may download artifacts.
    pub fn may_use_artifacts(&self) -> Result<()> {
        self.may(Deed::UseArtifact)
    }

    /// Records a version of an artifact, whose content is in object storage.
    pub async fn push_artifact(&self, new: &ArtifactVersion) -> Result<PushedArtifact> {
        self.may(Deed::PushArtifact)?;
        let new = ArtifactVersion { tenant: self.actor.tenant, ..new.clone() };
        Ok(self.node().store.push_artifact(&new, self.author()).await?)
    }

    /// A version of an artifact of the tenant.
    pub async fn artifact(&self, reference: &ArtifactReference) -> Result<ArtifactVersion> {
        self.may(Deed::SeeArtifacts)?;
        let found = self.node().artifact_version(self.actor.tenant, reference).await?;
        found.ok_or_else(|| no_artifact(reference))
    }

    /// Versions of all artifacts of the tenant, or of one: by name, the newest first.
    pub async fn list_artifacts(
        &self,
        name: Option<&str>,
        after: Option<&(String, u32)>,
        limit: u32,
    ) -> Result<Page<ArtifactVersion, (String, u32)>> {
        self.may(Deed::SeeArtifacts)?;
        Ok(self.node().store.list_artifacts(self.actor.tenant, name, after, limit).await?)
    }

    /// The names of the tenant's jobs that use a version.
    pub async fn artifact_users(&self, version: &ArtifactVersion) -> Result<Vec<String>> {
        self.may(Deed::SeeArtifacts)?;
        self.node().artifact_users(self.actor.tenant, &version.name, version.version).await
    }

    /// Deletes a version that no job uses.
    pub async fn delete_artifact(&self, reference: &ArtifactReference) -> Result<()> {
        self.may(Deed::DeleteArtifact)?;
        let version = self.artifact(reference).await?;
        let users = self.artifact_users(&version).await?;
        if !users.is_empty() {
            let shown = users.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = match users.len().saturating_sub(10) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let text = format!("artifact {} is used by {shown}{more}", version.reference());
            return Err(EngineError::WrongState(text));
        }
        let (tenant, name) = (self.actor.tenant, &version.name);
        match self
            .node()
            .store
            .delete_artifact(tenant, name, version.version, self.author())
            .await?
        {
            true => Ok(()),
            false => Err(no_artifact(reference)),
        }
    }
}
