//! Addresses of object storage.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use url::Url;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may pause.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);

/// Why an address cannot be used. It names no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(pub String);

fn wrong(problem: impl ToString) -> AddressError {
    AddressError(problem.to_string())
}

/// A client for an address, and the folder of the objects there.
pub(super) fn open(
    address: &str,
    credentials: &str,
) -> Result<(Arc<dyn ObjectStore>, Path), AddressError> {
    let url = Url::parse(address).map_err(|_| {
        wrong("must be /path/to/folder, s3://bucket/…, gs://bucket/… or az://container/…")
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("credentials do not belong in the address"));
    }
    let bucket = url.host_str().filter(|host| !host.is_empty());
    let bucket = bucket.ok_or_else(|| wrong("names no bucket"))?;
    let prefix = Path::from_url_path(url.path()).map_err(wrong)?;
    let options = Parameters::read(&url)?;
    let store: Arc<dyn ObjectStore> = match url.scheme() {
        "s3" => Arc::new(s3(bucket, &options, credentials)?),
        "gs" => Arc::new(google(bucket, &options, credentials)?),
        "az" => Arc::new(azure(bucket, &options, credentials)?),
        other => return Err(wrong(format!("begins with {other}, not s3, gs, az or file"))),
    };
    Ok((store, prefix))
}

/// The parameters of an address.
#[derive(Default)]
struct Parameters {
    region: Option<String>,
    endpoint: Option<String>,
}

impl Parameters {
    fn read(url: &Url) -> Result<Self, AddressError> {
        let mut read = Parameters::default();
        for (name, value) in url.query_pairs() {
            match name.as_ref() {
                "region" => read.region = Some(value.into_owned()),
                "endpoint" => read.endpoint = Some(value.into_owned()),
                other => {
                    return Err(wrong(format!("has {other:?}, not one of region, endpoint")));
                }
            }
        }
        Ok(read)
    }

    /// Whether the endpoint is on this machine: only there may requests be in the clear.
    fn allows_http(&self) -> Result<bool, AddressError> {
        let Some(endpoint) = &self.endpoint else { return Ok(false) };
        let url = Url::parse(endpoint).map_err(|_| wrong("endpoint is not a URL"))?;
        let is_here = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        };
        match url.scheme() {
            "https" => Ok(false),
            "http" if is_here => Ok(true),
            _ => Err(wrong("endpoint must begin with https://, or be on this machine")),
        }
    }

    fn client(&self) -> Result<ClientOptions, AddressError> {
        let options = ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_read_timeout(READ_TIMEOUT)
            .with_allow_http(self.allows_http()?);
        Ok(options)
    }
}

fn retry() -> RetryConfig {
    RetryConfig { max_retries: 3, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() }
}

/// Two parts of the credentials; none if they are empty.
fn pair<'a>(credentials: &'a str, form: &str) -> Result<Option<(&'a str, &'a str)>, AddressError> {
    if credentials.is_empty() {
        return Ok(None);
    }
    let parts = credentials.split_once(':').filter(|(id, key)| !id.is_empty() && !key.is_empty());
    parts.map(Some).ok_or_else(|| wrong(format!("the credentials must be {form}")))
}

fn s3(
    bucket: &str,
    parameters: &Parameters,
    credentials: &str,
) -> Result<impl ObjectStore, AddressError> {
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(parameters.region.as_deref().unwrap_or("us-east-1"))
        .with_client_options(parameters.client()?)
        .with_retry(retry());
    if let Some(endpoint) = &parameters.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some((id, secret)) = pair(credentials, "ACCESS_KEY_ID:SECRET_ACCESS_KEY")? {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
    }
    builder.build().map_err(wrong)
}

fn google(
    bucket: &str,
    parameters: &Parameters,
    credentials: &str,
) -> Result<impl ObjectStore, AddressError> {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_client_options(parameters.client()?)
        .with_retry(retry());
    if let Some(endpoint) = &parameters.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    if !credentials.is_empty() {
        builder = builder.with_service_account_key(credentials);
    }
    // An error about the key may repeat it.
    builder.build().map_err(|_| wrong("the credentials must be the JSON of a service account"))
}

fn azure(
    container: &str,
    parameters: &Parameters,
    credentials: &str,
) -> Result<impl ObjectStore, AddressError> {
    let mut builder = MicrosoftAzureBuilder::new()
        .with_container_name(container)
        .with_client_options(parameters.client()?)
        .with_retry(retry());
    if let Some(endpoint) = &parameters.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let (account, key) = pair(credentials, "ACCOUNT:KEY")?
        .ok_or_else(|| wrong("Azure needs credentials of the form ACCOUNT:KEY"))?;
    let builder = builder.with_account(account).with_access_key(key);
    builder.build().map_err(|_| wrong("the credentials must be ACCOUNT:KEY, the key in base64"))
}

#[cfg(test)]
mod tests {
    use crate::BlobStore;

    #[test]
    fn addresses_are_read_strictly() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made").display().to_string();
        let keys = "id:secret";
        for (address, credentials, answer) in [
            (path.as_str(), "", "ok"),
            (&format!("file://{path}"), "", "ok"),
            ("s3://bucket/prefix?region=eu-west-1", keys, "ok"),
            ("s3://bucket", "", "ok"),
            ("s3://bucket?endpoint=http://127.0.0.1:9000", keys, "ok"),
            ("s3://bucket?endpoint=https://s3.example.com", keys, "ok"),
            (
                "s3://bucket?endpoint=http://s3.example.com",
                keys,
                "endpoint must begin with https://, or be on this machine",
            ),
            ("s3://bucket?regoin=x", keys, "has \"regoin\", not one of region, endpoint"),
            ("s3://id:secret@bucket", "", "credentials do not belong in the address"),
            ("s3://", keys, "names no bucket"),
            ("s3://bucket", "id", "the credentials must be ACCESS_KEY_ID:SECRET_ACCESS_KEY"),
            ("gs://bucket/prefix", "{", "the credentials must be the JSON of a service account"),
            ("az://container", "", "Azure needs credentials of the form ACCOUNT:KEY"),
            ("az://container/prefix", "account:a2V5", "ok"),
            ("ftp://bucket", "", "begins with ftp, not s3, gs, az or file"),
            (
                "bucket",
                "",
                "must be /path/to/folder, s3://bucket/…, gs://bucket/… or az://container/…",
            ),
        ] {
            let opened = BlobStore::at(address, credentials);
            let opened = opened.map_or_else(|error| error.to_string(), |_| "ok".into());
            assert_eq!(opened, answer, "{address}");
        }
    }
}
