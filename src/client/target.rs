//! Which server a command talks to, and the key that it presents.
//!
//! A key is presented only to the server that it belongs to: the key of a data folder goes to the
//! address that the folder's server wrote into it, while that server runs; the key of a context to
//! the address of that context. Any other address needs a key that the user names (`--token`).

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::ServerArgs;
use super::contexts::{self, Contexts, ServerContext};
use crate::cli_error::CliError;
use crate::config::environment;
use crate::data::{self, URL_FILE};
use crate::exit::{Exit, Failure};

/// The default address of a server.
const URL_DEFAULT: &str = "http://127.0.0.1:8630";

/// The default data folder of a server.
const DATA_DEFAULT: &str = "punctual-data";

/// The file in the data folder that holds the administrator's key.
const KEY_FILE: &str = "admin.key";

/// A server's address, and the key for it.
#[derive(Debug)]
pub struct ServerTarget {
    url: Url,
    token: Option<String>,
    /// Where the key comes from, or why there is none.
    origin: String,
    /// Whether no server runs in the data folder that the key would be from: the address is a guess,
    /// or that of a server which has ended.
    is_guess: bool,
    /// The tenant of the context.
    tenant: Option<String>,
}

impl ServerTarget {
    /// The server that arguments, environment and files name, in this order.
    pub fn find(args: &ServerArgs) -> Result<Self, Failure> {
        let environment = environment();
        find(args, &|name| variable(&environment, name))
    }

    /// A server whose address and key are known.
    pub fn known(url: &str, token: &str) -> Result<Self, Failure> {
        let origin = "the key is from --token".to_owned();
        Ok(ServerTarget {
            url: read_url(url)?,
            token: Some(token.to_owned()),
            origin,
            is_guess: false,
            tenant: None,
        })
    }

    /// A server whose address alone is known.
    pub fn without_key(url: &str) -> Result<Self, Failure> {
        let origin = "no key is given".to_owned();
        Ok(ServerTarget { url: read_url(url)?, token: None, origin, is_guess: false, tenant: None })
    }

    /// The address.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The key.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The tenant of the context that named the server.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Whether the server is on this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }

    /// The failure of a command that needs a key and has none for this address.
    pub fn no_key(&self) -> Failure {
        if self.is_guess {
            let error = CliError::new(self.origin.clone());
            let hint = "start a server with `punctual serve`, or name one with --data, or with \
                        --server and --token";
            return Failure::Ended(Exit::Unreachable, error.hint(hint));
        }
        let error = CliError::new(format!("there is no key for the server at {}", self.url));
        Failure::Ended(Exit::Auth, error.hint(self.about_key()))
    }

    /// The failure of a command whose answer does not come from a Punctual server.
    pub fn not_punctual(&self, status: u16) -> Failure {
        let text = format!(
            "the answer of {} (status {status}) does not come from a Punctual server",
            self.url
        );
        // A proxy answers in the place of a server that it cannot reach.
        let exit = if matches!(status, 502..=504) { Exit::Unreachable } else { Exit::Failed };
        let hint = "check the address (--server, PUNCTUAL_SERVER, --context); a proxy must pass \
                    the response headers of the server on";
        Failure::Ended(exit, CliError::new(text).hint(hint))
    }

    /// The hint for a key that was refused.
    pub fn about_key(&self) -> String {
        format!("{}; give another with --token, PUNCTUAL_TOKEN or PUNCTUAL_TOKEN_FILE", self.origin)
    }
}

/// The data folder of a server on this machine.
pub fn data_folder(args: &ServerArgs) -> PathBuf {
    let named = || variable(&environment(), "PUNCTUAL_DATA").map(PathBuf::from);
    args.data.clone().or_else(named).unwrap_or_else(|| DATA_DEFAULT.into())
}

/// The tenant that the environment names.
pub fn tenant() -> Option<String> {
    variable(&environment(), "PUNCTUAL_TENANT")
}

fn variable(environment: &[(String, String)], name: &str) -> Option<String> {
    let found = environment.iter().find(|(known, value)| known == name && !value.is_empty());
    found.map(|(_, value)| value.clone())
}

fn find(
    args: &ServerArgs,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ServerTarget, Failure> {
    let data = args.data.clone().or_else(|| variable("PUNCTUAL_DATA").map(PathBuf::from));
    let given_url = args.server.clone().or_else(|| variable("PUNCTUAL_SERVER"));
    let context_name = args.context.clone().or_else(|| variable("PUNCTUAL_CONTEXT"));
    // A folder that was named speaks of a server on this machine; the current context does not.
    let context = match (&context_name, &data, &given_url) {
        (Some(name), ..) => Some(context(Some(name), variable)?),
        (None, None, None) => Some(context(None, variable)?),
        _ => None,
    }
    .flatten();
    let data = data.unwrap_or_else(|| DATA_DEFAULT.into());
    let written = fs::read_to_string(data.join(URL_FILE)).ok().map(|text| text.trim().to_owned());
    let text = match (&given_url, &context) {
        (Some(url), _) => url.clone(),
        (None, Some(context)) => context.url.clone(),
        (None, None) => written.clone().unwrap_or_else(|| URL_DEFAULT.to_owned()),
    };
    let is_stopped = written.is_some() && !data::is_in_use(&data);
    let is_of_folder = given_url.is_none() && context.is_none();
    let is_guess = is_of_folder && (written.is_none() || is_stopped);
    let url = read_url(&text)?;
    if let Some(token) = args.token.clone().or_else(|| variable("PUNCTUAL_TOKEN")) {
        return ServerTarget::known(&text, &token);
    }
    if let Some(file) = variable("PUNCTUAL_TOKEN_FILE") {
        let token = read_key(Path::new(&file))?;
        let origin = format!("the key is from {file}");
        return Ok(ServerTarget { url, token: Some(token), origin, is_guess: false, tenant: None });
    }
    if let Some(context) = context.filter(|context| read_url(&context.url).is_ok_and(|u| u == url))
    {
        let token = match (context.token, context.token_file) {
            (Some(token), _) => Some(token),
            (None, Some(file)) => Some(read_key(&file)?),
            (None, None) => None,
        };
        let origin = match &token {
            Some(_) => "the key is that of the context".to_owned(),
            None => "the context has neither token nor token_file".to_owned(),
        };
        let tenant = context.tenant;
        return Ok(ServerTarget { url, token, origin, is_guess: false, tenant });
    }
    let (token, origin) = folder_key(&data, &url, written.as_deref())?;
    Ok(ServerTarget { url, token, origin, is_guess, tenant: None })
}

/// The key of a data folder if it belongs to this address, and where it is from or why it does not.
fn folder_key(
    data: &Path,
    url: &Url,
    written: Option<&str>,
) -> Result<(Option<String>, String), Failure> {
    let (file, folder) = (data.join(KEY_FILE), data.display());
    let Some(written) = written else {
        return Ok((None, format!("no server has been started in {folder}")));
    };
    if read_url(written).is_ok_and(|written| written == *url) {
        // Another process may listen there by now.
        if !data::is_in_use(data) {
            return Ok((None, format!("no server runs in {folder}")));
        }
        return match file.exists() {
            true => Ok((Some(read_key(&file)?), format!("the key is from {}", file.display()))),
            false => Ok((None, format!("there is no {}", file.display()))),
        };
    }
    Ok((None, format!("the key in {folder} belongs to the server at {written}")))
}

/// The context of a name, or the current one, if there is any.
fn context(
    name: Option<&str>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ServerContext>, Failure> {
    let file = contexts::folder(variable).map(|folder| contexts::file_in(&folder));
    let known = match &file {
        Some(file) => Contexts::read(file)?,
        None => Contexts::default(),
    };
    let Some(name) = name.or(known.current.as_deref()) else { return Ok(None) };
    match known.contexts.get(name) {
        Some(context) => Ok(Some(context.clone())),
        None => Err(known.missing(name, &file.unwrap_or_default())),
    }
}

fn read_url(text: &str) -> Result<Url, Failure> {
    let refuse = |problem: &str| {
        CliError::new(format!("{text:?} is not the address of a server: {problem}"))
            .hint("an address looks like http://127.0.0.1:8630 or https://jobs.example.com")
    };
    let url = Url::parse(text).map_err(|error| refuse(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("it begins with neither http:// nor https://").into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it must not hold a password; keys go into --token").into());
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    }
}

fn read_key(file: &Path) -> Result<String, Failure> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => {
            let message = format!("cannot read the key in {}: {error}", file.display());
            let hint = "run the command as the user of the server, or name a key with --token";
            Err(Failure::Ended(Exit::Auth, CliError::new(message).hint(hint)))
        }
    }
}

#[cfg(test)]
mod tests;
