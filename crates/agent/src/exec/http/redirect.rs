//! Whether an answer sends us elsewhere, and whether we go.

use reqwest::{Method, StatusCode};
use url::Url;

use super::request::Request;
use crate::exec::Failure;
use crate::guard::origin;

/// How many redirects are followed.
pub(super) const REDIRECTS_MAX: usize = 5;

/// Where we have been.
#[derive(Default)]
pub(super) struct Trail(Vec<(Method, Url)>);

impl Trail {
    /// How many redirects were followed.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Turns a request into the next one, as a response asks for. The second value is a note for
    /// the user. The guard decides whether the new target is allowed.
    pub fn follow(
        &mut self,
        request: &mut Request,
        status: StatusCode,
        location: &str,
    ) -> Result<Option<String>, Failure> {
        let from = origin(&request.url);
        let mut to = request.url.join(location).map_err(|_| {
            Failure::other("REDIRECT", format!("{from} redirects to something that is no URL"))
        })?;
        to.set_fragment(None);
        let refused = |problem: String| Err(Failure::refused("REDIRECT_NOT_ALLOWED", problem));
        if request.url.scheme() == "https" && to.scheme() == "http" {
            return refused(format!(
                "{from} redirects to {}, which is not encrypted; name that address as the \
                 endpoint if it is meant",
                origin(&to)
            ));
        }
        let mut note = None;
        let method = method_after(status, &request.method);
        if method != request.method {
            note = Some(format!("the redirect of {from} turned {} into {method}", request.method));
            request.body = None;
        }
        if to.origin() != request.url.origin() {
            request.forget_job();
            if request.body.as_ref().is_some_and(|body| body.is_secret) {
                return refused(format!(
                    "{from} redirects to {}, and the body holds a secret that is not for others",
                    origin(&to)
                ));
            }
        }
        let came_from = std::mem::replace(&mut request.url, to);
        self.0.push((std::mem::replace(&mut request.method, method), came_from));
        if self.0.contains(&(request.method.clone(), request.url.clone())) {
            return Err(Failure::other("REDIRECT", format!("{from} redirects in a circle")));
        }
        if self.0.len() > REDIRECTS_MAX {
            let problem = format!("more than {REDIRECTS_MAX} redirects, the last one by {from}");
            return Err(Failure::other("REDIRECT", problem));
        }
        Ok(note)
    }
}

/// Whether a status sends us elsewhere, given that it names a place.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The method of the next request: what browsers do, since that is what servers expect.
fn method_after(status: StatusCode, method: &Method) -> Method {
    match status.as_u16() {
        301 | 302 if *method == Method::POST => Method::GET,
        303 if *method != Method::HEAD => Method::GET,
        _ => method.clone(),
    }
}
