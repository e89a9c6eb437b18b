//! The SQL listener: clients of PostgreSQL ask in the protocol that they know.
//!
//! ```text
//!   listener ──▶ startup ──▶ session ──▶ crate::sql       what is asked is understood and done there
//!    │          │           │
//!    │      scram       answer, extended, channel   what it is asked and answered in
//!    └── wire, frame: the bytes
//! ```
//!
//! Nothing here reads SQL. A client costs no more memory than its longest message, what it has
//! prepared, and some rows of its answers; before it has proved who it is, much less.

mod answer;
mod cancel;
mod channel;
mod copy;
mod extended;
mod frame;
mod listener;
mod portal;
mod report;
mod session;
mod session_slots;
mod startup;
mod value;
mod watch;
mod wire;

pub use listener::{Shown, SqlListener, Terms, Tls};
pub use session_slots::SessionLimits;
