//! Artifacts: which version a job runs, and which versions are deleted by themselves.

use std::collections::{BTreeMap, HashSet};

use domain::action::{Action, ArtifactAction};
use domain::artifact::{
    ArtifactDigest, ArtifactReference, ArtifactRetention, ArtifactVersion, GRACE, PinnedArtifact,
    VersionReference,
};
use domain::id::TenantId;
use domain::job::{Definition, Job};
use jiff::Timestamp;
use store::SYSTEM;

use crate::error::{EngineError, Result};
use crate::node::Node;

/// So many versions are read at a time.
const PAGE: u32 = 500;

impl Node {
    /// Gives the artifacts of a definition the versions that they mean. A reference that the job had
    /// before keeps its version: a change of a job does not change what it runs.
    pub(crate) async fn resolve_artifacts(
        &self,
        tenant: TenantId,
        definition: &mut Definition,
        old: Option<&Definition>,
    ) -> Result<()> {
        let before: BTreeMap<String, PinnedArtifact> = old
            .into_iter()
            .flat_map(|definition| definition.actions())
            .filter_map(artifact_of)
            .filter_map(|it| Some((it.artifact_id.clone(), it.pinned?)))
            .collect();
        let own = std::iter::once(&mut definition.action);
        let steps = definition.dag.iter_mut().flat_map(|dag| dag.works_mut());
        let steps = steps.filter_map(|work| work.action_mut());
        for action in own.chain(steps) {
            let Action::Artifact(artifact) = action else { continue };
            artifact.pinned = match before.get(&artifact.artifact_id) {
                Some(pinned) => Some(*pinned),
                None => self.pin(tenant, &artifact.artifact_id).await?,
            };
        }
        Ok(())
    }

    /// The version that a reference means now; none if that is decided at each start.
    async fn pin(&self, tenant: TenantId, reference: &str) -> Result<Option<PinnedArtifact>> {
        // What cannot be read is refused by the check of the action.
        let Ok(reference) = reference.parse::<ArtifactReference>() else { return Ok(None) };
        let found = self.artifact_version(tenant, &reference).await?;
        let found = found.ok_or_else(|| no_artifact(&reference))?;
        Ok((reference.version != VersionReference::Latest).then(|| found.pin()))
    }

    /// The version that a reference means, if it is not deleted.
    pub async fn artifact_version(
        &self,
        tenant: TenantId,
        reference: &ArtifactReference,
    ) -> Result<Option<ArtifactVersion>> {
        let name = &reference.name;
        Ok(match reference.version {
            VersionReference::Number(version) => {
                let found = self.store.artifact(tenant, name, version).await?;
                found.filter(|found| found.deleted_at.is_none())
            }
            VersionReference::NewestNow | VersionReference::Latest => {
                self.store.newest_artifact(tenant, name).await?
            }
        })
    }

    /// The names of the jobs of a tenant that use a version of an artifact.
    pub async fn artifact_users(
        &self,
        tenant: TenantId,
        name: &str,
        version: u32,
    ) -> Result<Vec<String>> {
        let uses = |job: &Job| {
            job.definition.actions().filter_map(artifact_of).any(|it| is_use(it, name, version))
        };
        let jobs = self.jobs_of_tenant(Some(tenant), &[], uses).await?;
        let mut names: Vec<String> = jobs.into_iter().map(|job| job.name).collect();
        names.sort();
        Ok(names)
    }

    /// Deletes the versions that a retention rule does not keep, of all tenants. Answers how many.
    pub async fn expire_artifacts(
        &self,
        retention: ArtifactRetention,
        now: Timestamp,
    ) -> Result<usize> {
        if retention == ArtifactRetention::default() {
            return Ok(0);
        }
        let mut deleted = 0;
        for tenant in self.store.artifact_tenants().await? {
            let mut versions: BTreeMap<String, Vec<(u32, Timestamp)>> = BTreeMap::new();
            let mut after = None;
            loop {
                let page = self.store.list_artifacts(tenant, None, after.as_ref(), PAGE).await?;
                for it in page.items {
                    versions.entry(it.name).or_default().push((it.version, it.created_at));
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            versions.retain(|_, list| !retention.expired(list, |_| false, now).is_empty());
            if versions.is_empty() {
                continue;
            }
            let used = self.used_artifacts(Some(tenant)).await?;
            for (name, list) in &versions {
                let is_used = |version| used.iter().any(|it| is_use(it, name, version));
                for version in retention.expired(list, is_used, now) {
                    deleted += usize::from(
                        self.store.delete_artifact(tenant, name, version, SYSTEM).await?,
                    );
                }
            }
        }
        Ok(deleted)
    }

    /// Those of some contents that no version needs, nor did within the last day, nor any job.
    pub async fn unneeded_artifacts(
        &self,
        digests: &[ArtifactDigest],
    ) -> Result<Vec<ArtifactDigest>> {
        let needed = self.store.needed_artifacts(digests, GRACE).await?;
        let mut left: Vec<_> = digests.iter().filter(|it| !needed.contains(it)).copied().collect();
        if !left.is_empty() {
            let used = self.used_artifacts(None).await?;
            let used: HashSet<_> = used.iter().filter_map(|it| Some(it.pinned?.digest)).collect();
            left.retain(|digest| !used.contains(digest));
        }
        Ok(left)
    }

    /// The artifacts of the jobs of a tenant, or of all.
    async fn used_artifacts(&self, tenant: Option<TenantId>) -> Result<Vec<ArtifactAction>> {
        let uses = |job: &Job| job.definition.actions().any(|it| artifact_of(it).is_some());
        let jobs = self.jobs_of_tenant(tenant, &[], uses).await?;
        let actions = jobs.iter().flat_map(|job| job.definition.actions());
        Ok(actions.filter_map(artifact_of).cloned().collect())
    }
}

/// A reference that means nothing.
pub(crate) fn no_artifact(reference: &ArtifactReference) -> EngineError {
    EngineError::NotFound(format!("artifact {reference}"))
}

fn artifact_of(action: &Action) -> Option<&ArtifactAction> {
    match action {
        Action::Artifact(artifact) => Some(artifact),
        _ => None,
    }
}

fn is_use(action: &ArtifactAction, name: &str, version: u32) -> bool {
    let reference = action.artifact_id.parse::<ArtifactReference>();
    let is_named = reference.is_ok_and(|reference| reference.name == name);
    is_named && action.pinned.is_some_and(|pinned| pinned.version == version)
}
