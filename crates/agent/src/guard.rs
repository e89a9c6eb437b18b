//! Requests to addresses that users choose, without access to the internal network.
//!
//! A user who may define a job or a webhook chooses where this machine connects to, and this
//! machine stands where the user does not: behind the firewall, next to a metadata service. So a
//! [`Client`] connects to public addresses only, unless a [`Rule`] of the administrator allows
//! more.
//!
//! ```text
//!   URL ── check: scheme, user name, literal address, name of a metadata service
//!    │
//!    ├─ literal address ──────────────────────────────┐
//!    └─ name ── lookup ── every address is checked ───┤
//!                         one bad one refuses all     └── connect to what was checked
//! ```
//!
//! Looking up and checking are one step inside the connection: there is no second lookup that could
//! answer something else. A literal address never reaches the lookup, so the URL is checked for it
//! on the way in. Redirects are not followed here; a caller that follows one comes back through
//! [`Client::request`] and is checked again. Proxies of the environment are not used, because a
//! proxy would look the name up a second time.

mod ranges;
mod rule;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Method, RequestBuilder};
use url::{Host, Url};

use ranges::AddressKind;
pub use rule::{Rule, RuleError};

/// Names under which clouds hand out credentials. They are refused without a lookup.
const METADATA_NAMES: [&str; 6] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
];

/// The addresses of a name, once they are known.
pub type Addresses<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    /// All of them.
    fn addresses<'a>(&'a self, name: &'a str) -> Addresses<'a>;
}

/// Asks the machine, as every other program does.
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses<'a>(&'a self, name: &'a str) -> Addresses<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Decides where requests may go.
#[derive(Clone)]
pub struct Guard {
    rules: Arc<[Rule]>,
    lookup: Arc<dyn Lookup>,
}

/// A target that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target {target} is not allowed: {why}")]
pub struct Blocked {
    /// The host, and the address that it has.
    pub target: String,
    /// Reason of the refusal.
    pub why: String,
}

impl Blocked {
    /// The refusal inside an error of the HTTP client, if it was one.
    pub fn within(error: &reqwest::Error) -> Option<&Blocked> {
        causes(error).find_map(|cause| cause.downcast_ref())
    }
}

/// A name without an address.
#[derive(Debug)]
pub(crate) struct NotFound(pub io::Error);

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for NotFound {}

/// An error and its causes, outermost first. The error inside an IO error is shown, too.
pub(crate) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'e (dyn Error + 'static)| {
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

impl Guard {
    /// The public internet and what these rules add.
    pub fn new(rules: impl Into<Arc<[Rule]>>, lookup: Arc<dyn Lookup>) -> Self {
        Guard { rules: rules.into(), lookup }
    }

    /// Whether a request may go to this URL, judged by the URL alone.
    pub fn check(&self, url: &Url) -> Result<(), Blocked> {
        let blocked = |why: &str| Err(Blocked { target: origin(url), why: why.to_owned() });
        if !matches!(url.scheme(), "http" | "https") {
            return blocked("only http and https can be called");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return blocked("a user name or password in a URL ends up in logs, use a header");
        }
        match url.host() {
            Some(Host::Ipv4(address)) => self.check_address(None, address.into()),
            Some(Host::Ipv6(address)) => self.check_address(None, address.into()),
            Some(Host::Domain(name)) => {
                let name = rule::name_of(name);
                if METADATA_NAMES.contains(&name.as_str()) {
                    return blocked("it is the name of a metadata service");
                }
                Ok(())
            }
            None => blocked("it names no host"),
        }
    }

    /// The same for names whose address is known without a lookup: `localhost` and what ends with
    /// it is this machine (RFC 6761).
    pub fn check_known(&self, url: &Url) -> Result<(), Blocked> {
        self.check(url)?;
        match url.host() {
            Some(Host::Domain(name)) => {
                let name = rule::name_of(name);
                match name == "localhost" || name.ends_with(".localhost") {
                    true => self.check_address(Some(&name), IpAddr::V4(Ipv4Addr::LOCALHOST)),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether a connection may go to an address that a name stands for, or that stands for
    /// itself.
    fn check_address(&self, name: Option<&str>, address: IpAddr) -> Result<(), Blocked> {
        let plain = ranges::plain(address);
        let Some((network, kind)) = ranges::kind(plain) else { return Ok(()) };
        if self.rules.iter().any(|rule| rule.names(plain) || rule.names(address)) {
            return Ok(());
        }
        let what = match kind {
            AddressKind::Metadata(what) => what,
            AddressKind::Private(what) => {
                let name = name.map(rule::name_of);
                if name.is_some_and(|name| self.rules.iter().any(|rule| rule.trusts(&name))) {
                    return Ok(());
                }
                what
            }
        };
        let target = match name {
            Some(name) => format!("{name} ({address})"),
            None => address.to_string(),
        };
        let own = if plain == address { String::new() } else { format!("{plain} is ") };
        let why = format!(
            "{own}{what} ({network}); an administrator can allow it with jobs.http_allow_private"
        );
        Err(Blocked { target, why })
    }
}

/// The URL without its path and query, which may hold secrets.
pub(crate) fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let found = guard.lookup.addresses(name.as_str()).await.map_err(NotFound)?;
            if found.is_empty() {
                return Err(NotFound(io::Error::other("it has no address")).into());
            }
            // One address that is not allowed refuses all: a name with mixed addresses is
            // suspicious, and the client does not choose which of them is tried.
            for address in &found {
                guard.check_address(Some(name.as_str()), *address)?;
            }
            let found: Addrs = Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(found)
        })
    }
}

/// An HTTP client that goes where its guard allows and nowhere else.
#[derive(Clone)]
pub struct Client {
    guard: Guard,
    inner: reqwest::Client,
}

impl Client {
    /// A client with settings of its own. Proxies, redirects and lookups are not among them.
    pub fn new(guard: Guard, settings: ClientBuilder) -> Result<Self, reqwest::Error> {
        let inner = settings
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .dns_resolver(guard.clone())
            .build()?;
        Ok(Client { guard, inner })
    }

    /// Whether a request may go to this URL, judged by the URL alone.
    pub fn check(&self, url: &Url) -> Result<(), Blocked> {
        self.guard.check(url)
    }

    /// The same for names whose address is known without a lookup.
    pub fn check_known(&self, url: &Url) -> Result<(), Blocked> {
        self.guard.check_known(url)
    }

    /// Begins a request, if its target is allowed by its URL alone. The addresses of its name are
    /// checked when it connects; [`Blocked::within`] finds that refusal in the error.
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Blocked> {
        self.guard.check(&url)?;
        Ok(self.inner.request(method, url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &[&str], url: &str) -> String {
        let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let guard = Guard::new(rules, Arc::new(SystemLookup));
        let url = match Url::parse(url) {
            Ok(url) => url,
            Err(error) => return format!("no URL: {error}"),
        };
        match guard.check(&url) {
            Ok(()) => "ok".to_owned(),
            Err(blocked) => blocked.to_string(),
        }
    }

    #[test]
    fn every_spelling_of_an_address_is_seen_through() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://2130706433/",
            "http://127.0.0.1./",
            "http://①②⑦.⓪.⓪.①/",
            "http://%31%32%37.0.0.1/",
            "http:\\\\127.0.0.1\\",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://100.64.0.1/",
            "http://198.18.0.1/",
            "https://metadata.google.internal/",
            "https://METADATA.google.internal./",
            "http://metadata/",
            "http://user@example.org/",
            "http://user:word@example.org/",
            "http://:word@example.org/",
            "ftp://example.org/",
            "file:///etc/passwd",
            "gopher://example.org/",
        ] {
            let answer = check(&[], url);
            assert!(answer.contains("not allowed"), "{url}: {answer}");
        }
        for url in ["http://8.8.8.8/", "https://example.org:8443/x", "http://[2606:4700::1]/"] {
            assert_eq!(check(&[], url), "ok", "{url}");
        }
    }

    #[test]
    fn a_refusal_names_the_address_and_the_reason() {
        assert_eq!(
            check(&[], "http://0x7f.1:8080/secret"),
            "target 127.0.0.1 is not allowed: this machine (127.0.0.0/8); an administrator can \
             allow it with jobs.http_allow_private"
        );
        assert_eq!(
            check(&[], "https://metadata.google.internal:1/secret"),
            "target https://metadata.google.internal:1 is not allowed: it is the name of a \
             metadata service"
        );
    }

    #[test]
    fn rules_allow_what_they_name() {
        for (rules, url, answer) in [
            (&["127.0.0.0/8"][..], "http://127.0.0.1/", "ok"),
            (&["127.0.0.1"], "http://[::ffff:127.0.0.1]/", "ok"),
            (&["127.0.0.2"], "http://127.0.0.1/", "not allowed"),
            (&["169.254.169.254"], "http://169.254.169.254/", "ok"),
            (&["10.0.0.0/8", "::1"], "http://[::1]/", "ok"),
            (&["metadata.google.internal"], "http://metadata.google.internal/", "not allowed"),
        ] {
            let found = check(rules, url);
            assert!(found.contains(answer), "{rules:?} {url}: {found}");
        }
    }

    #[test]
    fn trust_in_a_name_covers_private_addresses_but_no_metadata_service() {
        let guard =
            Guard::new(vec!["billing.internal".parse::<Rule>().unwrap()], Arc::new(SystemLookup));
        for (name, address, allowed) in [
            ("billing.internal", "10.0.0.1", true),
            ("Billing.Internal.", "10.0.0.1", true),
            ("billing.internal", "169.254.169.254", false),
            ("billing.internal", "fd00:ec2::254", false),
            ("other.internal", "10.0.0.1", false),
            ("other.internal", "8.8.8.8", true),
        ] {
            let answer = guard.check_address(Some(name), address.parse().unwrap());
            assert_eq!(answer.is_ok(), allowed, "{name} {address}");
        }
    }
}
