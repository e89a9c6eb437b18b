//! A node in a process of its own. It prints `ready`, waits for a line, and works until its
//! standard input ends or it is killed.

use std::io::{BufRead, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use domain::cluster::NodeRole;
use engine::{Engine, NodeInfo, Settings};
use jiff::SignedDuration;
use serde_json::{Value, json};
use store::postgres::{PostgresOptions, PostgresStore};

use crate::executors::{Counter, notifiers};
use crate::present::parts;

/// Arguments of a node process.
#[derive(Clone, Debug)]
pub struct Part {
    /// The database.
    pub url: String,
    /// Its name.
    pub name: String,
    /// Whether it executes too.
    pub executes: bool,
    /// Its slots.
    pub concurrency: u32,
    /// How far it plans ahead, in seconds.
    pub look_ahead: i64,
    /// With more jobs than this, planning is divided.
    pub planning_buckets_above: u32,
    /// Its lease, in seconds.
    pub lease: i64,
}

impl Part {
    /// As an argument.
    pub fn to_text(&self) -> String {
        json!({
            "url": self.url, "name": self.name, "executes": self.executes,
            "concurrency": self.concurrency, "look_ahead": self.look_ahead,
            "planning_buckets_above": self.planning_buckets_above, "lease": self.lease,
        })
        .to_string()
    }

    fn of_text(text: &str) -> Result<Self> {
        let part: Value = serde_json::from_str(text)?;
        let text = |name: &str| part[name].as_str().map(str::to_owned).context("a word is missing");
        let number = |name: &str| part[name].as_i64().context("a number is missing");
        Ok(Part {
            url: text("url")?,
            name: text("name")?,
            executes: part["executes"] == true,
            concurrency: u32::try_from(number("concurrency")?)?,
            look_ahead: number("look_ahead")?,
            planning_buckets_above: u32::try_from(number("planning_buckets_above")?)?,
            lease: number("lease")?,
        })
    }

    fn settings(&self) -> Settings {
        let roles: &[NodeRole] =
            if self.executes { &NodeRole::ALL } else { &[NodeRole::Scheduler] };
        let default = Settings::default();
        // A shorter lease is renewed as much more often.
        let share = |of: SignedDuration| of * self.lease as i32 / 10;
        Settings {
            info: NodeInfo { roles: roles.to_vec(), ..NodeInfo::named(&self.name) },
            max_concurrent_jobs: self.concurrency,
            max_runs_per_job: u32::MAX,
            look_ahead: SignedDuration::from_secs(self.look_ahead),
            planning_buckets_above: self.planning_buckets_above,
            lease: SignedDuration::from_secs(self.lease),
            renew_every: share(default.renew_every),
            stop_before_lease_end: share(default.stop_before_lease_end),
            ..default
        }
    }
}

/// Is a node.
pub async fn run(part: &str) -> Result<()> {
    let part = Part::of_text(part)?;
    let store = PostgresStore::connect(&part.url, PostgresOptions::default()).await?;
    println!("ready");
    std::io::stdout().flush()?;
    let go = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new()));
    if go.await?? == 0 {
        return Ok(());
    }
    let engine = Engine::start(
        std::sync::Arc::new(store),
        Counter::default(),
        notifiers(),
        part.settings(),
        parts(),
    );
    let engine = engine.await?;
    let over = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_to_end(&mut Vec::new()));
    over.await??;
    engine.stop(Duration::from_secs(1)).await;
    Ok(())
}
