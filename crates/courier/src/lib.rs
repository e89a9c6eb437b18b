//! Carries alerts out of the house.
//!
//! The engine decides what to tell and when to try again; here is only the way: HTTP requests
//! signed as Standard Webhooks 1.0.0 asks for.

pub mod message;
mod sign;
mod webhook;

pub use sign::{SecretError, SigningSecret};
pub use webhook::Webhook;
