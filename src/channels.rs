//! Alert channels and databases that were made over REST, as the engine and the agent see them:
//! looked up when they are needed, so that a change needs no restart.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent::guard::{Blocked, Client, Guard, Rule, SystemLookup};
use agent::{Agent, DatabaseSource};
use domain::alert::Alert;
use domain::id::{ObjectId, TenantId};
use domain::job::Definition;
use domain::object::{Object, ObjectKind};
use engine::{Channel, Notifier, Notifiers, Present};
use jiff::Timestamp;
use notify::{SigningSecret, message};
use reqwest::{Method, Url};
use server::shape::channel::{ChannelBody, signers};
use server::shape::database::DatabaseBody;
use server::{Known, Trials, Tried};
use store::SharedStore;
use vault::Vault;

/// How long an endpoint may take to answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Channels that are read from the store at once.
const PAGE: u32 = 500;

/// The databases of the store.
pub struct StoreDatabases {
    /// Where they are.
    pub store: SharedStore,
    /// Decrypts their passwords.
    pub vault: Arc<Vault>,
}

impl DatabaseSource for StoreDatabases {
    fn url<'a>(
        &'a self,
        tenant: TenantId,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send + 'a>> {
        Box::pin(async move {
            // A password that is changed just now is another one at the second look.
            for _ in 0..2 {
                let found = self.store.object_by_name(tenant, ObjectKind::Database, name).await;
                let found = found.map_err(|error| error.to_string())?;
                let Some(object) = found else { return Ok(None) };
                let body: DatabaseBody =
                    serde_json::from_str(&object.body).map_err(|error| error.to_string())?;
                let Some(part) = body.sealed else { return Ok(Some(body.url)) };
                if let Some(url) = self.vault.open_part(&object, &part).await? {
                    return Ok(Some(url.to_string()));
                }
            }
            Err("its password was not found".to_owned())
        })
    }
}

/// Posts alerts to addresses that users set over REST: to public ones, and to those that the
/// administrator allows.
#[derive(Clone)]
pub struct Poster {
    client: Client,
    clock: fn() -> Timestamp,
}

impl Poster {
    /// One that may go where HTTP jobs may.
    pub fn new(allow_private: &[Rule], clock: fn() -> Timestamp) -> Result<Self, reqwest::Error> {
        let guard = Guard::new(allow_private.to_vec(), Arc::new(SystemLookup));
        let settings = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")));
        Ok(Poster { client: Client::new(guard, settings)?, clock })
    }

    async fn post(
        &self,
        url: &str,
        secret: &str,
        content: message::Content<'_>,
    ) -> Result<(), String> {
        let secrets: Vec<SigningSecret> = signers(secret)
            .map(SigningSecret::parse)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let url = Url::parse(url).map_err(|error| format!("the url is wrong: {error}"))?;
        let message = message::signed(&content, &secrets, (self.clock)());
        let request = self.client.request(Method::POST, url).map_err(|blocked| blocked.to_string());
        let mut request = request?.body(message.body);
        for (name, value) in message.headers {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|error| match Blocked::within(&error) {
            Some(blocked) => blocked.to_string(),
            None => error.without_url().to_string(),
        })?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the endpoint answered {status}")),
        }
    }
}

/// One channel of the store, as it is now.
struct StoreChannel {
    id: String,
    object: Object,
    body: ChannelBody,
    vault: Arc<Vault>,
    poster: Poster,
}

/// A value that a channel keeps sealed; `word` says what it is.
async fn open(
    vault: &Vault,
    channel: &Object,
    part: &str,
    word: &str,
) -> Result<impl Deref<Target = String> + use<>, String> {
    let found = vault.open_part(channel, part).await;
    let found = found.map_err(|problem| format!("its {word} cannot be read: {problem}"))?;
    found.ok_or_else(|| format!("its {word} is not there"))
}

/// Posts to a channel.
async fn post_to(
    vault: &Vault,
    poster: &Poster,
    channel: &Object,
    body: &ChannelBody,
    content: message::Content<'_>,
) -> Result<(), String> {
    let url = open(vault, channel, &body.sealed_url, "address").await?;
    let secret = open(vault, channel, &body.sealed, "secret").await?;
    poster.post(&url, &secret, content).await
}

impl Notifier for StoreChannel {
    fn channel(&self) -> &str {
        &self.id
    }

    fn wants(&self) -> Channel {
        Channel {
            name: self.id.clone(),
            tenant: Some(self.object.tenant),
            kinds: self.body.known_kinds(),
            since: self.body.since,
        }
    }

    fn deliver<'a>(
        &'a self,
        alert: &'a Alert,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async move {
            let content = message::Content::Alert(alert);
            post_to(&self.vault, &self.poster, &self.object, &self.body, content).await
        })
    }
}

/// The channels of the store.
pub struct StoreChannels {
    /// Where they are.
    pub store: SharedStore,
    /// Decrypts their signing secrets.
    pub vault: Arc<Vault>,
    /// Delivers the alerts.
    pub poster: Poster,
}

impl Notifiers for StoreChannels {
    fn present(&self) -> Present<'_> {
        Box::pin(async move {
            let mut present: Vec<Arc<dyn Notifier>> = Vec::new();
            let mut after: Option<ObjectId> = None;
            loop {
                let page = self.store.objects_of_kind(ObjectKind::AlertChannel, after, PAGE).await;
                let page = page.map_err(|error| error.to_string())?;
                after = page.last().map(|object| object.id);
                let is_last = page.len() < PAGE as usize;
                present.extend(page.into_iter().filter_map(|object| self.notifier(object)));
                if is_last {
                    return Ok(present);
                }
            }
        })
    }
}

impl StoreChannels {
    /// The notifier of a channel; none when the channel is disabled.
    fn notifier(&self, object: Object) -> Option<Arc<dyn Notifier>> {
        let body: ChannelBody = match serde_json::from_str(&object.body) {
            Ok(body) => body,
            Err(error) => {
                tracing::warn!(channel = object.name, %error, "cannot read alert channel");
                return None;
            }
        };
        if !body.enabled {
            return None;
        }
        let (id, vault) = (object.id.to_string(), Arc::clone(&self.vault));
        Some(Arc::new(StoreChannel { id, object, body, vault, poster: self.poster.clone() }))
    }
}

/// Tries things out with what jobs and alerts use.
pub struct RealTrials {
    /// Connects to databases.
    pub agent: Arc<Agent>,
    /// Decrypts signing secrets.
    pub vault: Arc<Vault>,
    /// Posts alerts.
    pub poster: Poster,
}

impl Trials for RealTrials {
    fn database<'a>(&'a self, tenant: TenantId, name: &'a str) -> Tried<'a> {
        Box::pin(self.agent.try_database(tenant, name))
    }

    fn known_database<'a>(&'a self, tenant: TenantId, name: Option<&'a str>) -> Known<'a> {
        Box::pin(self.agent.known_database(tenant, name))
    }

    fn objection(&self, tenant: TenantId, definition: &Definition) -> Option<String> {
        self.agent.objection(tenant, definition)
    }

    fn channel<'a>(&'a self, channel: &'a Object) -> Tried<'a> {
        Box::pin(async move {
            let body: ChannelBody =
                serde_json::from_str(&channel.body).map_err(|error| error.to_string())?;
            let content = message::Content::Test { channel: &channel.name, tenant: channel.tenant };
            post_to(&self.vault, &self.poster, channel, &body, content).await?;
            Ok("the endpoint took it".to_owned())
        })
    }
}
