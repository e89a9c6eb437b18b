//! `${secrets.NAME}` in the texts of an action: resolved here, at the last moment, and nowhere
//! else.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use domain::action::Assignment;

use crate::output::Masked;

/// Where the values of secrets come from.
pub trait Secrets: Send + Sync {
    /// The value of a secret as this assignment may see it; none when there is no such secret.
    fn get<'a>(
        &'a self,
        assignment: &'a Assignment,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, SecretError>> + Send + 'a>>;
}

/// Why a text could not be completed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// There is no such secret.
    #[error("there is no secret named {0:?}")]
    Unknown(String),
    /// The text is not closed, or names nothing.
    #[error("{0:?} is not a reference of the form ${{secrets.NAME}}")]
    Malformed(String),
    /// The value cannot be read now.
    #[error("the secret {name:?} cannot be read: {problem}")]
    Unreadable {
        /// The secret.
        name: String,
        /// Cause of the failure.
        problem: String,
    },
}

/// Secrets that are the same for all jobs and known from the start.
#[derive(Default)]
pub struct StaticSecrets(pub BTreeMap<String, String>);

impl Secrets for StaticSecrets {
    fn get<'a>(
        &'a self,
        _assignment: &'a Assignment,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, SecretError>> + Send + 'a>> {
        Box::pin(async move { Ok(self.0.get(name).cloned()) })
    }
}

/// Registers the values of an attempt with its output, so that they are masked.
pub(crate) struct Remembering<'a> {
    secrets: &'a dyn Secrets,
    output: Masked,
}

impl<'a> Remembering<'a> {
    pub fn new(secrets: &'a dyn Secrets, output: Masked) -> Self {
        Remembering { secrets, output }
    }
}

impl Secrets for Remembering<'_> {
    fn get<'a>(
        &'a self,
        assignment: &'a Assignment,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, SecretError>> + Send + 'a>> {
        Box::pin(async move {
            let value = self.secrets.get(assignment, name).await?;
            if let Some(value) = &value {
                self.output.hide(value);
            }
            Ok(value)
        })
    }
}

/// How a reference begins.
pub(crate) const OPEN: &str = "${secrets.";

/// The text with the values of the secrets that it names. A value is never looked at again: what
/// looks like a reference in it stays as it is.
pub(crate) async fn resolve<'t>(
    text: &'t str,
    assignment: &Assignment,
    secrets: &dyn Secrets,
) -> Result<Cow<'t, str>, SecretError> {
    if !text.contains(OPEN) {
        return Ok(Cow::Borrowed(text));
    }
    let mut resolved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        resolved.push_str(&rest[..at]);
        let reference = &rest[at..];
        let name = reference[OPEN.len()..].split_once('}').map(|(name, _)| name);
        let name = name.filter(|name| !name.is_empty() && name.bytes().all(is_of_name));
        let Some(name) = name else {
            let shown: String = reference.chars().take(40).collect();
            return Err(SecretError::Malformed(shown));
        };
        match secrets.get(assignment, name).await? {
            Some(value) => resolved.push_str(&value),
            None => return Err(SecretError::Unknown(name.to_owned())),
        }
        rest = &reference[OPEN.len() + name.len() + 1..];
    }
    resolved.push_str(rest);
    Ok(Cow::Owned(resolved))
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}
