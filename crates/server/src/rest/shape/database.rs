//! Databases as the REST API shows and takes them. A password is taken and never shown.

use domain::object::Object;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Stands in place of a password.
pub const HIDDEN: &str = "***";

/// A database.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSpec {
    /// The name that SQL jobs use; unique among the databases of the tenant.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", example = "sales")]
    pub name: String,
    /// Where it is. The password is best a reference, which is kept as it stands; one that is
    /// written out is never shown again.
    #[schema(example = "postgres://report:${secrets.SALES}@db.example.com/sales")]
    pub url: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 4294967295_u32)]
    pub version: Option<u32>,
}

/// The stored body of a database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DatabaseBody {
    /// Where it is. A password that was written out is hidden.
    pub url: String,
    /// Which secret of the object is the address with its password; none when nothing is hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A database.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DatabaseView {
    /// Its id; absent when it comes from the settings of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_id: Option<Uuid>,
    /// Its name.
    pub name: String,
    /// The kind: `POSTGRES` or `SQLITE`.
    #[schema(example = "POSTGRES")]
    pub kind: &'static str,
    /// Where it is, without its password.
    pub url: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it comes from: `api`, or `settings` of the server, which only they change.
    #[schema(example = "api")]
    pub source: &'static str,
    /// Grows with every change, from 1; absent when it comes from the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When it was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

impl DatabaseView {
    /// One that was made over REST.
    pub fn of(object: &Object, body: DatabaseBody) -> Self {
        DatabaseView {
            database_id: Some(object.id.0),
            name: object.name.clone(),
            kind: kind(&body.url),
            url: masked(&body.url),
            description: body.description,
            source: "api",
            version: Some(object.version),
            created_at: Some(object.created_at),
            updated_at: Some(object.changed_at),
        }
    }

    /// One of the settings.
    pub fn of_settings(name: &str, url: &str) -> Self {
        DatabaseView {
            database_id: None,
            name: name.to_owned(),
            kind: kind(url),
            url: masked(url),
            description: None,
            source: "settings",
            version: None,
            created_at: None,
            updated_at: None,
        }
    }
}

fn kind(url: &str) -> &'static str {
    if url.starts_with("sqlite:") { "SQLITE" } else { "POSTGRES" }
}

/// The address without its password. A reference to a secret is no secret and stays. Where it is
/// not clear how far a password goes, rather too much is hidden than too little.
pub fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, rest),
    };
    let user = user.map(|user| match user.split_once(':') {
        Some((user, password)) if !is_reference(password) => format!("{user}:{HIDDEN}@"),
        _ => format!("{user}@"),
    });
    let rest = match rest.split_once('?') {
        Some((place, query)) => {
            let parts: Vec<String> = query.split('&').map(mask_option).collect();
            format!("{place}?{}", parts.join("&"))
        }
        None => rest.to_owned(),
    };
    format!("{scheme}://{}{rest}", user.unwrap_or_default())
}

fn mask_option(option: &str) -> String {
    match option.split_once('=') {
        Some((name, value)) if is_telling(name) && !is_reference(value) => {
            format!("{name}={HIDDEN}")
        }
        _ => option.to_owned(),
    }
}

/// Options can be spelled with `%70` for a `p`: what is not plain is hidden too.
fn is_telling(name: &str) -> bool {
    name.contains('%') || name.to_ascii_lowercase().contains("pass")
}

fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("${secrets.").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    })
}

/// The address of a change: one that was shown without its password and comes back means the old
/// one. A hidden password goes to no other place than before.
pub fn unmasked(new: &str, old: Option<&str>) -> Result<String, String> {
    if !masked_parts(new) {
        return Ok(new.to_owned());
    }
    match old {
        Some(old) if masked(old) == new => Ok(old.to_owned()),
        Some(_) => Err(format!(
            "{HIDDEN} stands for the password only while the rest of the address stays; send the \
             password, or better ${{secrets.NAME}}"
        )),
        None => Err(format!("{HIDDEN} is no password; send it, or better ${{secrets.NAME}}")),
    }
}

/// Whether a password was hidden.
fn masked_parts(url: &str) -> bool {
    url.contains(&format!(":{HIDDEN}@")) || url.contains(&format!("={HIDDEN}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_hidden_wherever_it_stands() {
        for (url, shown) in [
            ("postgres://u:geheim@h/d", "postgres://u:***@h/d"),
            ("postgres://u:ge@heim@h:5432/d?x=1", "postgres://u:***@h:5432/d?x=1"),
            ("postgres://u:ge:heim@h,h2/d", "postgres://u:***@h,h2/d"),
            ("postgres://u:ge?heim@h/d", "postgres://u:***@h/d"),
            ("postgres://u:ge/heim@h/d", "postgres://u:***@h/d"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgres://u:${secrets.SALES}@h/d", "postgres://u:${secrets.SALES}@h/d"),
            ("postgres://u:${secrets.A}geheim@h/d", "postgres://u:***@h/d"),
            ("postgres://h/d?user=u&password=geheim&x=1", "postgres://h/d?user=u&password=***&x=1"),
            ("postgres://h/d?%70assword=geheim", "postgres://h/d?%70assword=***"),
            ("sqlite:/var/lib/x.db", "sqlite:/var/lib/x.db"),
        ] {
            assert_eq!(masked(url), shown);
            assert!(!masked(url).contains("geheim"));
        }
    }

    #[test]
    fn a_hidden_password_stays_where_it_was() {
        let old = "postgres://u:geheim@h/d";
        assert_eq!(unmasked("postgres://u:***@h/d", Some(old)).unwrap(), old);
        assert_eq!(unmasked("postgres://u:neu@h2/d", Some(old)).unwrap(), "postgres://u:neu@h2/d");
        assert!(unmasked("postgres://u:***@evil/d", Some(old)).is_err());
        assert!(unmasked("postgres://u:***@h/d", None).is_err());
    }
}
