//! `punctual tenant`, `user`, `role`, `grant`, `key` and `whoami`: who may do what on a server.

mod grant;
mod key;
mod role;
mod tenant;
mod user;

use clap::Args;
use serde_json::Value;

use super::job::Asking;
use crate::exit::Failure;
use crate::output::{self, instant, text};

pub use grant::GrantCommand;
pub use key::KeyCommand;
pub use role::RoleCommand;
pub use tenant::TenantCommand;
pub use user::UserCommand;

pub use grant::run as grant;
pub use key::run as key;
pub use role::run as role;
pub use tenant::run as tenant;
pub use user::run as user;

/// The fields of one item for display, without those that are empty.
fn rows(item: &Value) -> Vec<(String, String)> {
    let Value::Object(fields) = item else { return Vec::new() };
    let shown = fields.iter().filter(|(_, value)| !value.is_null());
    let row = |(field, value): (&String, &Value)| {
        let value = match value {
            Value::Array(words) => {
                words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
            }
            _ if field.ends_with("_at") => instant(item, field),
            _ => text(item, field),
        };
        (field.replace('_', " "), value)
    };
    shown.map(row).collect()
}

/// Arguments of `whoami`.
#[derive(Args)]
pub struct WhoamiArgs {
    #[command(flatten)]
    asking: Asking,
}

/// Says who the key belongs to and what it may do.
pub fn whoami(args: WhoamiArgs) -> Result<(), Failure> {
    let me = args.asking.client()?.get(&["v1", "whoami"])?;
    output::print_one(&args.asking.output, &me, "user", rows)
}
