//! The restrictions of a job in a SQLite file: it cannot open other files, load code, or end the
//! transaction that surrounds it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// The pragmas that a job may use: they read, or they concern the content of this file only.
const PRAGMAS: &[&str] = &[
    "analysis_limit",
    "application_id",
    "case_sensitive_like",
    "collation_list",
    "compile_options",
    "data_version",
    "defer_foreign_keys",
    "encoding",
    "foreign_key_check",
    "foreign_key_list",
    "foreign_keys",
    "freelist_count",
    "function_list",
    "incremental_vacuum",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "optimize",
    "page_count",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];

/// The rules in force on a connection.
pub(super) struct Rules {
    suspended: Arc<AtomicBool>,
    denied: Arc<Mutex<Option<String>>>,
}

impl Rules {
    /// Puts the rules into force.
    pub fn apply(connection: &mut Connection) -> rusqlite::Result<Self> {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false)?;
        let rules = Rules { suspended: Arc::default(), denied: Arc::default() };
        let (suspended, denied) = (Arc::clone(&rules.suspended), Arc::clone(&rules.denied));
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if suspended.load(Ordering::Relaxed) {
                return Authorization::Allow;
            }
            match objection(&context.action) {
                Some(message) => {
                    *denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
                    Authorization::Deny
                }
                None => Authorization::Allow,
            }
        }))?;
        Ok(rules)
    }

    /// Does something of our own that a job may not.
    pub fn suspended<T>(&self, act: impl FnOnce() -> T) -> T {
        self.suspended.store(true, Ordering::Relaxed);
        let done = act();
        self.suspended.store(false, Ordering::Relaxed);
        done
    }

    /// The last operation that was denied.
    pub fn denied(&self) -> Option<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why an action is not allowed.
fn objection(action: &AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            Some("ATTACH and DETACH are not allowed: a job works in one database file".to_owned())
        }
        AuthAction::Transaction { .. } => Some(
            "BEGIN, COMMIT and ROLLBACK are not allowed: the statements of a job are one \
             transaction already"
                .to_owned(),
        ),
        AuthAction::Pragma { pragma_name, .. } => {
            let known = PRAGMAS.iter().any(|known| known.eq_ignore_ascii_case(pragma_name));
            (!known).then(|| format!("PRAGMA {pragma_name} is not allowed in a job"))
        }
        AuthAction::Function { function_name } => {
            let name = function_name.to_ascii_lowercase();
            matches!(name.as_str(), "load_extension" | "fts3_tokenizer")
                .then(|| format!("the function {name} is not allowed in a job"))
        }
        AuthAction::Unknown { .. } => Some("this statement is not allowed in a job".to_owned()),
        _ => None,
    }
}
