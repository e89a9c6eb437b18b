//! Rules of the administrator that allow more than the public internet.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use url::Host;

/// A network or a host that is not public and may be called all the same.
///
/// ```
/// use punctual_agent::guard::Rule;
/// for text in ["10.20.0.0/16", "192.168.1.7", "fd12::/16", "billing.internal", "*.corp.example"] {
///     assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
/// }
/// assert!("10.0.0.0/33".parse::<Rule>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every address of a network, by whatever name it is called.
    Network(IpNet),
    /// A host, whatever private address it has. Addresses of metadata services need a rule of
    /// their own.
    Host(String),
    /// Every host below a domain, but not the domain itself.
    Below(String),
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is neither a network such as 10.20.0.0/16, nor an address, nor a host such as \
     billing.internal or *.corp.example"
)]
pub struct RuleError(String);

impl Rule {
    /// Whether it trusts a host by its name, which is in the form of [`name_of`].
    pub(super) fn trusts(&self, name: &str) -> bool {
        match self {
            Rule::Network(_) => false,
            Rule::Host(host) => host == name,
            Rule::Below(domain) => {
                let rest = name.strip_suffix(domain.as_str());
                rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
        }
    }

    /// Whether it names the address.
    pub(super) fn names(&self, address: IpAddr) -> bool {
        matches!(self, Rule::Network(net) if net.contains(&address))
    }
}

/// The form of a host's name that is compared: small letters, no dot at the end.
pub(super) fn name_of(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError(text.to_owned());
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Rule::Network(net.trunc()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Rule::Network(address.into()));
        }
        let (below, host) = match text.strip_prefix("*.") {
            Some(domain) => (true, domain),
            None => (false, text),
        };
        // The parser of URLs accepts more names than a rule should have.
        if host.contains(['*', '$', '{', '}']) {
            return Err(wrong());
        }
        match Host::parse(host) {
            Ok(Host::Domain(name)) if below => Ok(Rule::Below(name_of(&name))),
            Ok(Host::Domain(name)) => Ok(Rule::Host(name_of(&name))),
            Ok(Host::Ipv4(_) | Host::Ipv6(_)) | Err(_) => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rule::Network(net) if net.prefix_len() == net.max_prefix_len() => {
                write!(f, "{}", net.addr())
            }
            Rule::Network(net) => write!(f, "{net}"),
            Rule::Host(host) => f.write_str(host),
            Rule::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_networks_addresses_or_hosts() {
        for (text, rule) in [
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("10.1.2.3", Some("10.1.2.3")),
            ("::1", Some("::1")),
            ("Billing.Internal.", Some("billing.internal")),
            ("*.corp.example", Some("*.corp.example")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("localhost", Some("localhost")),
            ("", None),
            ("*", None),
            ("*.", None),
            ("a.*.b", None),
            ("10.0.0.0/33", None),
            ("10.0.0", None),
            ("http://example.org", None),
            ("example.org:80", None),
        ] {
            let parsed = text.parse::<Rule>().ok().map(|rule| rule.to_string());
            assert_eq!(parsed.as_deref(), rule, "{text}");
        }
    }

    #[test]
    fn a_rule_trusts_what_it_names_and_nothing_that_looks_alike() {
        for (rule, name, trusted) in [
            ("billing.internal", "billing.internal", true),
            ("billing.internal", "evilbilling.internal", false),
            ("billing.internal", "billing.internal.evil.example", false),
            ("*.corp.example", "a.corp.example", true),
            ("*.corp.example", "a.b.corp.example", true),
            ("*.corp.example", "corp.example", false),
            ("*.corp.example", ".corp.example", false),
            ("*.corp.example", "evilcorp.example", false),
            ("10.0.0.0/8", "10.0.0.1", false),
        ] {
            assert_eq!(rule.parse::<Rule>().unwrap().trusts(name), trusted, "{rule} {name}");
        }
    }
}
