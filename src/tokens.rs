//! Trusted token issuers of the settings, and how their keys are fetched.

use std::time::Duration;

use reqwest::Url;
use server::{Answer, Fetcher, Issuer, LoginClient, Mapping, Oidc};

use crate::cli_error::CliError;
use crate::config::Config;

/// How long an issuer may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An answer of an issuer is read up to this length.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The issuers of the settings, if they have any.
pub fn of_settings(config: &Config) -> Result<Option<Oidc>, CliError> {
    let issuers = config.list("auth.oidc.issuers").map(|text| issuer(config, text));
    let issuers = issuers.collect::<Result<Vec<Issuer>, CliError>>()?;
    if issuers.is_empty() {
        return Ok(None);
    }
    let list = |name| config.list(name).map(str::to_owned).collect::<Vec<String>>();
    let mapping = Mapping {
        audiences: list("auth.oidc.audience"),
        tenant_claim: config.text("auth.oidc.tenant_claim").to_owned(),
        tenant: config.text("auth.oidc.tenant").to_owned(),
        roles_claim: config.text("auth.oidc.roles_claim").to_owned(),
        roles: roles(config)?,
    };
    if mapping.audiences.is_empty() {
        let right = "set when auth.oidc.issuers is: tokens for others are not for this server";
        return Err(config.wrong("auth.oidc.audience", right));
    }
    let leads_nowhere = |issuer: &Issuer| issuer.tenant.is_none();
    if mapping.tenant_claim.is_empty()
        && mapping.tenant.is_empty()
        && issuers.iter().any(leads_nowhere)
    {
        let right = "set, or auth.oidc.tenant_claim, when an issuer of auth.oidc.issuers has no TENANT= before it";
        return Err(config.wrong("auth.oidc.tenant", right));
    }
    let fetcher = Web::new().map_err(|error| {
        CliError::new(format!("auth.oidc.issuers: cannot create the HTTP client: {error}"))
    })?;
    let oidc = Oidc::new(issuers, mapping, fetcher);
    Ok(Some(match client(config)? {
        Some(client) => oidc.with_login(client),
        None => oidc,
    }))
}

/// The client that browsers log in with, if there is one.
fn client(config: &Config) -> Result<Option<LoginClient>, CliError> {
    let id = config.text("auth.oidc.client_id");
    if id.is_empty() {
        return Ok(None);
    }
    let redirect_url = config.text("auth.oidc.redirect_url").to_owned();
    let is_callback = redirect_url.ends_with("/v1/session/oidc/callback")
        && ["https://", "http://127.0.0.1", "http://localhost", "http://[::1]"]
            .iter()
            .any(|begin| redirect_url.starts_with(begin));
    if !is_callback {
        let right = "https://HOST/v1/session/oidc/callback when auth.oidc.client_id is set; http:// on this machine only";
        return Err(config.wrong("auth.oidc.redirect_url", right));
    }
    let secret = Some(config.text("auth.oidc.client_secret").to_owned());
    let secret = secret.filter(|secret| !secret.is_empty());
    Ok(Some(LoginClient { id: id.to_owned(), secret, redirect_url }))
}

/// `https://…`, or `TENANT=https://…`.
fn issuer(config: &Config, text: &str) -> Result<Issuer, CliError> {
    let right = "addresses such as https://login.example.com, or acme=https://login.example.com; \
                 http:// on this machine only";
    let wrong = || config.wrong("auth.oidc.issuers", right);
    let (tenant, url) = match text.split_once('=') {
        Some((tenant, url)) => (Some(tenant.trim()), url.trim()),
        None => (None, text),
    };
    let parsed: Url = url.parse().map_err(|_| wrong())?;
    let is_here = matches!(parsed.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let is_good = match parsed.scheme() {
        "https" => parsed.host_str().is_some(),
        "http" => is_here,
        _ => false,
    };
    let is_plain = parsed.query().is_none()
        && parsed.fragment().is_none()
        && parsed.username().is_empty()
        && parsed.password().is_none();
    if !is_good || !is_plain || tenant == Some("") {
        return Err(wrong());
    }
    Ok(Issuer { url: url.to_owned(), tenant: tenant.map(str::to_owned) })
}

/// `CLAIM=ROLE`, with commas between them.
fn roles(config: &Config) -> Result<Vec<(String, String)>, CliError> {
    let read = |item: &str| {
        // A word may be an address, with an equals sign in it; the name of a role has none.
        let (word, role) = item.rsplit_once('=')?;
        let (word, role) = (word.trim(), role.trim());
        (!word.is_empty() && !role.is_empty()).then(|| (word.to_owned(), role.to_owned()))
    };
    let all = config.list("auth.oidc.roles").map(read).collect::<Option<_>>();
    all.ok_or_else(|| {
        config.wrong("auth.oidc.roles", "CLAIM=ROLE, separated by commas; * for every user")
    })
}

/// Fetches the documents of issuers over HTTP: no redirects, no proxy, with limits on time and
/// size.
struct Web(reqwest::Client);

impl Web {
    fn new() -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")));
        Ok(Web(client.build()?))
    }
}

impl Fetcher for Web {
    fn get<'a>(&'a self, url: &'a str) -> Answer<'a, Vec<u8>, String> {
        Box::pin(answer(url, self.0.get(url)))
    }

    fn post<'a>(
        &'a self,
        url: &'a str,
        form: &'a str,
        authorization: Option<&'a str>,
    ) -> Answer<'a, Vec<u8>, String> {
        let request = self
            .0
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json")
            .body(form.to_owned());
        let request = match authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        };
        Box::pin(answer(url, request))
    }
}

/// The body of an answer, up to its largest length.
async fn answer(url: &str, request: reqwest::RequestBuilder) -> Result<Vec<u8>, String> {
    let failed = |error: reqwest::Error| format!("{url}: {}", error.without_url());
    let mut response = request.send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(format!("{url} answered {}", response.status()));
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(failed)? {
        body.extend_from_slice(&part);
        if body.len() > ANSWER_BYTES_MAX {
            return Err(format!("{url} answered more than {ANSWER_BYTES_MAX} bytes"));
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    fn read(settings: &[(&str, &str)]) -> Result<bool, String> {
        let variable = |name: &str| format!("PUNCTUAL_AUTH__OIDC__{}", name.to_ascii_uppercase());
        let environment =
            settings.iter().map(|(name, value)| (variable(name), (*value).to_owned()));
        let empty = tempfile::NamedTempFile::new().unwrap();
        let file = Some(empty.path().to_owned());
        let sources = Sources { flags: Vec::new(), file, environment: environment.collect() };
        let config = Config::load(sources).unwrap_or_else(|error| panic!("{error}"));
        match of_settings(&config) {
            Ok(tokens) => Ok(tokens.is_some()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn settings_that_would_let_the_wrong_ones_in_are_refused() {
        let whole = [("audience", "punctual"), ("tenant", "acme")];
        for (issuers, is_good) in [
            ("https://id.example.com", true),
            ("https://id.example.com/realms/a/, acme=https://other.example.com", true),
            ("http://localhost:8080/realms/a", true),
            ("http://127.0.0.1:1", true),
            ("http://id.example.com", false),
            ("http://localhost.example.com", false),
            ("id.example.com", false),
            ("file:///etc/passwd", false),
            ("https://id.example.com?x=y", false),
            ("https://user@id.example.com", false),
            ("https://id.example.com#x", false),
            ("=https://id.example.com", false),
        ] {
            let mut settings = whole.to_vec();
            settings.push(("issuers", issuers));
            match (read(&settings), is_good) {
                (Ok(true), true) => {}
                (Err(text), false) => {
                    assert!(text.starts_with("error: auth.oidc.issuers: "), "{text}")
                }
                (answer, _) => panic!("{issuers}: {answer:?}"),
            }
        }
        assert_eq!(read(&[]), Ok(false));
        let issuer = ("issuers", "https://id.example.com");
        let refused = |settings: &[(&str, &str)]| read(settings).unwrap_err();
        assert!(refused(&[issuer]).starts_with("error: auth.oidc.audience: "));
        assert!(refused(&[issuer, whole[0]]).starts_with("error: auth.oidc.tenant: "));
        let own = ("issuers", "acme=https://id.example.com");
        assert_eq!(read(&[own, whole[0]]), Ok(true));
        let unmapped = [issuer, whole[0], whole[1], ("roles", "admins")];
        assert!(refused(&unmapped).starts_with("error: auth.oidc.roles: "));
        let mapped = [issuer, whole[0], whole[1], ("roles", "a=b=c, *=guests")];
        assert_eq!(read(&mapped), Ok(true));
    }
}
