//! State that every handler works with.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use agent::backup::Backups;
use agent::output::Outputs;
use domain::schedule::Zones;
use engine::Engine;
use jiff::Timestamp;
use vault::SecretService;

use crate::actor::Authority;
use crate::artifact_uploads::ArtifactStorage;
use crate::directory::JobDirectory;
use crate::limit::Rate;
use crate::metrics::Metrics;
use crate::news::EventTail;
use crate::node_names::NodeNames;
use crate::output_archive::OutputArchive;
use crate::queries::Queries;
use crate::reads::ReadLimits;
use crate::rest::ConfigurationEntry;
use crate::shared_answers::SharedAnswers;
use crate::status::PublicPages;
use crate::trials::Trials;
use crate::week_plan::WeekPlans;

/// State of a server as axum passes it on: each layer and handler has its own clone.
#[derive(Clone)]
pub struct App {
    parts: Arc<Parts>,
    /// State changes, for all clients that listen.
    pub(crate) events: Arc<EventTail>,
    /// Runs that are due in the next seven days, for all requests.
    pub(crate) week_plans: Arc<WeekPlans>,
    /// In-memory rows by which lists of jobs are filtered, counted and sorted.
    pub(crate) directory: Arc<JobDirectory>,
    /// Answers that requests share.
    pub(crate) shared_answers: Arc<SharedAnswers>,
    /// Status pages that are public.
    pub(crate) status_pages: Arc<PublicPages>,
}

/// Dependencies of a server.
#[derive(Clone)]
pub struct Parts {
    /// The engine, whatever its store.
    pub engine: Arc<Engine>,
    /// Finds the actor of a key or token.
    pub authority: Arc<dyn Authority>,
    /// The secrets, sealed.
    pub secrets: Arc<dyn SecretService>,
    /// Outputs of attempts on this machine.
    pub outputs: Outputs,
    /// Storage of artifacts.
    pub artifacts: Arc<ArtifactStorage>,
    /// Outputs in object storage.
    pub output_archive: Arc<OutputArchive>,
    /// Makes backups.
    pub backups: Arc<dyn Backups>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The present.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// 128 bits that do not repeat.
    pub random: Arc<dyn Fn() -> u128 + Send + Sync>,
    /// The time-zone databases.
    pub zones: Zones,
    /// Tries databases and channels out.
    pub trials: Arc<dyn Trials>,
    /// Where questions are answered.
    pub queries: Arc<Queries>,
    /// The names of nodes.
    pub node_names: Arc<NodeNames>,
    /// Settings of the HTTP listener.
    pub options: Arc<Options>,
}

/// Settings of the HTTP listener.
#[derive(Clone)]
pub struct Options {
    /// Whether a change must name the version that it is based on.
    pub strict_concurrency: bool,
    /// Whether `/metrics` answers without a key.
    pub open_metrics: bool,
    /// Whether clients reach the server over TLS of its own.
    pub has_tls: bool,
    /// The largest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// The largest body of a bulk request, in bytes.
    pub bulk_bytes_max: usize,
    /// A step of the scheduler without an answer for longer than this makes the server unready,
    /// in seconds.
    pub stall_seconds_max: u32,
    /// How often requests may come with one key.
    pub rate: Rate,
    /// How often requests may come from one address without a valid key.
    pub failure_rate: Rate,
    /// How many requests may read at the same time.
    pub reads: ReadLimits,
    /// The databases of the settings: addresses by name.
    pub databases: BTreeMap<String, String>,
    /// The dashboard.
    pub ui: UiOptions,
    /// The settings as an administrator may see them.
    pub configuration: Vec<ConfigurationEntry>,
}

/// Settings of the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiOptions {
    /// Where browsers see it: `/ui/`, with what a proxy puts before it. Begins and ends with `/`.
    pub base_path: String,
    /// Name of the environment, such as `production`. Every page shows it, so that users do not
    /// confuse clusters.
    pub environment: Option<String>,
}

impl Default for UiOptions {
    fn default() -> Self {
        UiOptions { base_path: "/ui/".to_owned(), environment: None }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            strict_concurrency: false,
            open_metrics: false,
            has_tls: false,
            body_bytes_max: 2 << 20,
            bulk_bytes_max: 64 << 20,
            stall_seconds_max: 15,
            rate: Rate::default(),
            failure_rate: Rate::default(),
            reads: ReadLimits::default(),
            databases: BTreeMap::new(),
            ui: UiOptions::default(),
            configuration: Vec::new(),
        }
    }
}

impl From<Parts> for App {
    fn from(parts: Parts) -> Self {
        App {
            parts: Arc::new(parts),
            events: Arc::default(),
            week_plans: Arc::default(),
            directory: Arc::default(),
            shared_answers: Arc::default(),
            status_pages: Arc::default(),
        }
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl App {
    /// The same but for something.
    pub fn but(&self, change: impl FnOnce(&mut Parts)) -> Self {
        let mut parts = Parts::clone(self);
        change(&mut parts);
        App::from(parts)
    }

    /// The present.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}
