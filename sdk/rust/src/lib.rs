//! Send messages to queues of Punctual, and work on them.
//!
//! ```no_run
//! use punctual_sdk::{Client, Fail, Worker};
//! use serde_json::json;
//!
//! let client = Client::from_env(); // PUNCTUAL_SERVER and PUNCTUAL_TOKEN
//! client.send("emails", json!({"action": "welcome", "to": "ann@example.com"}), json!({"workspace": "acme"}))?;
//! let mut worker = Worker::new(client, ["emails"]);
//! worker.action("welcome", |message| {
//!     let to = message.payload["to"].as_str().ok_or(Fail("no address"))?;
//!     message.log(format!("to {to}"));
//!     Ok(json!({"sent": to}))
//! });
//! worker.run();
//! # Ok::<(), punctual_sdk::Error>(())
//! ```
//!
//! A handler that returns `Ok` is done. [`Retry`] names the delay before the next attempt, [`Fail`]
//! makes the message a dead letter, every other error is retried as the queue's policy says.

mod client;
mod http;
mod session;
mod worker;

pub use client::{Client, Error, Lease};
pub use http::{HttpTransport, Response, Transport};
pub use worker::{Fail, HandlerError, HandlerResult, Message, Outcome, Retry, Stop, Worker};
