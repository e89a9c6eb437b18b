//! Delivers alerts to webhooks.
//!
//! The engine decides which alerts to deliver and when to retry; this crate sends the HTTP
//! requests, signed as Standard Webhooks 1.0.0 specifies.

pub mod message;
mod sign;
mod webhook;

pub use sign::{SecretError, SigningSecret};
pub use webhook::Webhook;
