//! The text form of OpenMetrics, read strictly: what this refuses, some collector would refuse.

use std::collections::{BTreeMap, BTreeSet};

/// A family of metrics.
#[derive(Debug, Default)]
pub struct MetricFamily {
    pub kind: String,
    pub help: String,
    pub samples: Vec<Sample>,
}

/// One line.
#[derive(Debug)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl MetricFamily {
    /// The names of its labels, without that of buckets.
    pub fn labels(&self) -> BTreeSet<&str> {
        let names = self.samples.iter().flat_map(|sample| sample.labels.keys());
        names.map(String::as_str).filter(|name| *name != "le").collect()
    }
}

/// All metrics of a text by name.
pub fn parse(text: &str) -> BTreeMap<String, MetricFamily> {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with # EOF");
    let mut metrics: BTreeMap<String, MetricFamily> = BTreeMap::new();
    let mut current = String::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let [word, name, rest] = [(); 3].map(|()| words.next().unwrap_or_default());
            assert!(is_name(name), "{line}");
            if name != current {
                assert!(!metrics.contains_key(name), "{name} is not in one piece");
                current = name.to_owned();
            }
            let family = metrics.entry(current.clone()).or_default();
            assert!(family.samples.is_empty(), "{line} comes after its samples");
            match word {
                "HELP" => family.help = rest.to_owned(),
                "TYPE" => family.kind = rest.to_owned(),
                _ => panic!("{line}"),
            }
        } else {
            let sample = sample(line);
            let family = metrics.get_mut(&current).unwrap_or_else(|| panic!("{line}"));
            let suffix = sample.name.strip_prefix(&current).unwrap_or_else(|| panic!("{line}"));
            let suffixes: &[&str] = match family.kind.as_str() {
                "counter" => &["_total"],
                "gauge" => &[""],
                "histogram" => &["_bucket", "_count", "_sum"],
                "info" => &["_info"],
                kind => panic!("{current} is a {kind}"),
            };
            assert!(suffixes.contains(&suffix), "{line} is no {}", family.kind);
            let twin = |other: &Sample| other.name == sample.name && other.labels == sample.labels;
            assert!(!family.samples.iter().any(twin), "{line} comes twice");
            family.samples.push(sample);
        }
    }
    for (name, family) in &metrics {
        assert!(!family.help.is_empty() && !family.samples.is_empty(), "{name}: {family:?}");
        match family.kind.as_str() {
            "histogram" => check_buckets(name, family),
            "counter" => assert!(family.samples.iter().all(|sample| sample.value >= 0.0)),
            _ => {}
        }
    }
    metrics
}

/// Buckets grow, in their borders and in what is in them, and the last holds everything.
fn check_buckets(name: &str, family: &MetricFamily) {
    // By labels: borders with what is in them, and the count.
    let mut series: BTreeMap<_, (Vec<(f64, f64)>, f64)> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let border = labels.remove("le");
        let (buckets, count) = series.entry(labels).or_default();
        match border {
            Some(border) if border == "+Inf" => buckets.push((f64::INFINITY, sample.value)),
            Some(border) => buckets.push((border.parse().unwrap(), sample.value)),
            None if sample.name.ends_with("_count") => *count = sample.value,
            None => {}
        }
    }
    for (labels, (buckets, count)) in series {
        let grows = buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        assert!(grows, "{name}{labels:?}: {buckets:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{name}{labels:?}");
    }
}

fn sample(line: &str) -> Sample {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    let (name, labels) = match head.split_once('{') {
        None => (head, BTreeMap::new()),
        Some((name, rest)) => {
            let rest = rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}"));
            (name, labels(rest))
        }
    };
    assert!(is_name(name), "{line}");
    Sample { name: name.to_owned(), labels, value }
}

fn labels(mut text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        assert!(is_name(name) && !name.contains(':'), "{name}");
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("{rest} does not end")) {
                (at, '"') => break at,
                (_, '\\') => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c @ ('\\' | '"'))) => value.push(c),
                    other => panic!("{rest}: {other:?} is escaped"),
                },
                (_, c) => value.push(c),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} comes twice");
        text = &rest[end + 1..];
        text = text.strip_prefix(',').unwrap_or(text);
    }
    labels
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.chars().all(fits) && name.starts_with(|c: char| !c.is_ascii_digit())
}
