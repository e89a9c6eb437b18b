//! How many of the jobs that a job depends on must have ended as required.

use serde::{Deserialize, Serialize};

/// How many of the upstream jobs a run waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DependencyRule {
    /// All of them.
    #[default]
    All,
    /// One of them.
    Any,
}

impl DependencyRule {
    pub(crate) fn is_default(&self) -> bool {
        *self == DependencyRule::All
    }

    /// The upstream jobs that hold a run up, given which of them are not ready: none if enough of
    /// them are ready.
    pub fn missing<T>(self, upstream: &[T], is_ready: impl Fn(&T) -> bool) -> Vec<&T> {
        match self {
            DependencyRule::Any if upstream.iter().any(&is_ready) => Vec::new(),
            _ => upstream.iter().filter(|it| !is_ready(it)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ready_job_is_enough_for_any() {
        use DependencyRule::{All, Any};
        for (rule, ready, missing) in [
            (All, &[][..], 0),
            (Any, &[], 0),
            (All, &[true, true], 0),
            (All, &[true, false], 1),
            (Any, &[true, false], 0),
            (All, &[false, false], 2),
            (Any, &[false, false], 2),
        ] {
            assert_eq!(rule.missing(ready, |it| *it).len(), missing, "{rule:?} {ready:?}");
        }
    }
}
