//! Status pages that are public: plain pages without scripts and without a key, for chosen tags.
//!
//! A page shows names of jobs and how their last runs ended, and nothing else. Pages and what they
//! show are read at most once in [`FRESH`], however many readers there are, and what is not public
//! looks like what does not exist.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use domain::id::{JobId, TenantId};
use domain::job::{Job, JobKind, JobState};
use domain::object::ObjectKind;
use domain::run::Outcome;
use engine::{JobFilter, RecentEnd};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use crate::app::App;
use crate::problem::Result;
use crate::rest::status_pages::StatusPageBody;

/// How old a page may be.
const FRESH: SignedDuration = SignedDuration::from_secs(10);

/// The tenant whose pages have no tenant in their address.
const DEFAULT_TENANT: &str = "default";

/// Pages that are read at once, public pages in all, jobs of a tag, outcomes of a job.
const READ: u32 = 500;
const PAGES_MAX: usize = 1_000;
const JOBS_MAX: u32 = 200;
const OUTCOMES: u32 = 20;

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// The public pages, as they were read last.
#[derive(Default)]
pub(crate) struct PublicPages {
    known: Mutex<KnownPages>,
    is_old: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
struct KnownPages {
    read_at: Option<Timestamp>,
    pages: HashMap<(TenantId, String), PublicPage>,
}

struct PublicPage {
    body: StatusPageBody,
    shown: Option<(Timestamp, Arc<str>)>,
}

impl PublicPages {
    /// A page was made, changed or removed: they are read again.
    pub fn forget(&self) {
        self.is_old.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// A page that is public.
    async fn page(&self, app: &App, tenant: TenantId, name: &str) -> Result<Option<Arc<str>>> {
        let mut known = self.known.lock().await;
        let now = app.now();
        let is_old = |at: Timestamp| now.duration_since(at).abs() > FRESH;
        if self.is_old.swap(false, std::sync::atomic::Ordering::Relaxed)
            || known.read_at.is_none_or(is_old)
        {
            known.pages = read_pages(app).await?;
            known.read_at = Some(now);
        }
        let Some(page) = known.pages.get_mut(&(tenant, name.to_owned())) else { return Ok(None) };
        if let Some((_, text)) = page.shown.as_ref().filter(|(at, _)| !is_old(*at)) {
            return Ok(Some(text.clone()));
        }
        let rows = rows(app, tenant, &page.body).await?;
        let text: Arc<str> = render(&page.body.title, &rows, now, &app.options.ui.base_path).into();
        page.shown = Some((now, text.clone()));
        Ok(Some(text))
    }
}

/// The address of a page below that of the server.
pub(crate) fn path(tenant: &str, name: &str) -> String {
    match tenant {
        DEFAULT_TENANT => format!("/ui/status/{name}"),
        tenant => format!("/ui/status/{tenant}/{name}"),
    }
}

/// The addresses of public pages.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/ui/status/{name}", get(of_default_tenant))
        .route("/ui/status/{tenant}/{name}", get(of_tenant))
}

async fn of_default_tenant(State(app): State<App>, Path(name): Path<String>) -> Response {
    show(&app, DEFAULT_TENANT, &name).await
}

async fn of_tenant(
    State(app): State<App>,
    Path((tenant, name)): Path<(String, String)>,
) -> Response {
    show(&app, &tenant, &name).await
}

async fn show(app: &App, tenant: &str, name: &str) -> Response {
    let page = match app.engine.node().tenant_named(tenant).await {
        Ok(Some(tenant)) => app.status_pages.page(app, tenant, name).await,
        Ok(None) => Ok(None),
        Err(error) => Err(error.into()),
    };
    let base = &app.options.ui.base_path;
    let (status, text): (StatusCode, Arc<str>) = match page {
        Ok(Some(text)) => (StatusCode::OK, text),
        Ok(None) => (StatusCode::NOT_FOUND, message("There is no such page.", base).into()),
        Err(problem) => {
            tracing::warn!(error = problem.message, "a status page could not be made");
            let text = message("The state of the jobs is not known at the moment.", base);
            (StatusCode::SERVICE_UNAVAILABLE, text.into())
        }
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ];
    (status, headers, text.to_string()).into_response()
}

async fn read_pages(app: &App) -> Result<HashMap<(TenantId, String), PublicPage>> {
    let (mut pages, mut after) = (HashMap::new(), None);
    loop {
        let kind = ObjectKind::StatusPage;
        let objects = app.engine.node().objects_of_kind(kind, after, READ).await?;
        after = objects.last().map(|object| object.id);
        let is_last = objects.len() < READ as usize;
        for object in objects {
            // A body that cannot be read is not public.
            let body = serde_json::from_str::<StatusPageBody>(&object.body).ok();
            if let Some(body) = body.filter(|body| body.is_public) {
                pages.insert((object.tenant, object.name), PublicPage { body, shown: None });
            }
        }
        if is_last || pages.len() >= PAGES_MAX {
            return Ok(pages);
        }
    }
}

/// A job on a status page.
struct StatusRow {
    name: String,
    state: JobState,
    /// Newest first.
    ends: Vec<(Timestamp, Outcome)>,
}

/// How a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Failing,
    Paused,
    Well,
    Unknown,
}

impl Health {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Health::Failing => ("failing", "Failing"),
            Health::Paused => ("paused", "Paused"),
            Health::Well => ("well", "Working"),
            Health::Unknown => ("unknown", "No runs yet"),
        }
    }
}

impl StatusRow {
    fn health(&self) -> Health {
        let decisive = |(_, outcome): &&(Timestamp, Outcome)| {
            !matches!(outcome, Outcome::Skipped | Outcome::Cancelled)
        };
        match (self.state, self.ends.iter().find(decisive)) {
            (JobState::Paused | JobState::Disabled, _) => Health::Paused,
            (_, Some((_, Outcome::Completed))) => Health::Well,
            (_, Some(_)) => Health::Failing,
            (_, None) => Health::Unknown,
        }
    }
}

async fn rows(app: &App, tenant: TenantId, page: &StatusPageBody) -> Result<Vec<StatusRow>> {
    let mut jobs: BTreeMap<JobId, Job> = BTreeMap::new();
    for tag in &page.tags {
        for kind in [JobKind::Job, JobKind::Dag] {
            let tag = Some(tag.clone());
            let filter = JobFilter { tag, kind, ..JobFilter::of_tenant(tenant) };
            let found = app.engine.node().list_jobs(&filter, None, JOBS_MAX).await?;
            jobs.extend(found.items.into_iter().map(|job| (job.id, job)));
        }
    }
    let ids: Vec<JobId> = jobs.keys().copied().collect();
    let mut ends: HashMap<JobId, Vec<(Timestamp, Outcome)>> = HashMap::new();
    for RecentEnd { job, scheduled_for, outcome, .. } in
        app.engine.node().recent_ends(&ids, OUTCOMES).await?
    {
        ends.entry(job).or_default().push((scheduled_for, outcome));
    }
    let mut rows: Vec<StatusRow> = jobs
        .into_values()
        .map(|job| StatusRow {
            ends: ends.remove(&job.id).unwrap_or_default(),
            name: job.name,
            state: job.state,
        })
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(rows)
}

/// A text in a page.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Characters that cannot be seen, or that turn text around.
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                safe.push('\u{fffd}');
            }
            c => safe.push(c),
        }
    }
    safe
}

fn document(title: &str, body: &str, base: &str) -> String {
    let (title, base) = (escaped(title), escaped(base));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n\
         <link rel=\"icon\" href=\"{base}favicon.svg\">\n\
         <link rel=\"stylesheet\" href=\"{base}status.css\">\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn message(text: &str, base: &str) -> String {
    document("Status", &format!("<h1>{}</h1>\n", escaped(text)), base)
}

fn shown_time(at: Timestamp) -> String {
    let text = at.strftime("%-d %b %Y, %H:%M UTC");
    format!("<time datetime=\"{}\">{text}</time>", at.strftime("%Y-%m-%dT%H:%M:%SZ"))
}

fn render(title: &str, rows: &[StatusRow], now: Timestamp, base: &str) -> String {
    let count = |wanted: Health| rows.iter().filter(|row| row.health() == wanted).count();
    let failing = count(Health::Failing);
    let (class, sentence) = match (rows.len(), failing) {
        (0, _) => ("unknown", "There is nothing to show yet.".to_owned()),
        (1, 0) => ("well", "The job works.".to_owned()),
        (all, 0) => ("well", format!("All {all} jobs work.")),
        (all, 1) => ("failing", format!("1 of {all} jobs fails.")),
        (all, failing) => ("failing", format!("{failing} of {all} jobs fail.")),
    };
    let mut body = format!("<p class=\"title\">{}</p>\n", escaped(title));
    let _ = writeln!(body, "<h1 class=\"{class}\">{sentence}</h1>");
    if !rows.is_empty() {
        body.push_str(
            "<table>\n<thead><tr><th>Job</th><th>State</th><th>Last 20 runs</th>\
             <th>Last run</th></tr></thead>\n<tbody>\n",
        );
    }
    for row in rows {
        let (class, word) = row.health().words();
        let marks: String = row.ends.iter().rev().map(|(_, outcome)| mark(*outcome)).collect();
        let last = row.ends.first().map_or_else(|| "–".to_owned(), |(at, _)| shown_time(*at));
        let counted = row.ends.iter().filter(|(_, it)| *it == Outcome::Completed).count();
        let label = format!("{counted} of the last {} runs completed", row.ends.len());
        let _ = writeln!(
            body,
            "<tr><td class=\"name\">{}</td><td><span class=\"state {class}\">{word}</span></td>\
             <td><span class=\"strip\" role=\"img\" aria-label=\"{label}\">{marks}</span></td>\
             <td>{last}</td></tr>",
            escaped(&row.name)
        );
    }
    if !rows.is_empty() {
        body.push_str("</tbody>\n</table>\n");
    }
    let _ = writeln!(
        body,
        "<p class=\"small\">As of {}. Load the page again for newer ones.</p>",
        shown_time(now)
    );
    document(title, &body, base)
}

/// A run in the strip.
fn mark(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "<i class=\"ok\"></i>",
        Outcome::Failed | Outcome::Timeout => "<i class=\"bad\"></i>",
        Outcome::Missed => "<i class=\"missed\"></i>",
        Outcome::Skipped | Outcome::Cancelled => "<i class=\"none\"></i>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: JobState, ends: &[Outcome]) -> StatusRow {
        let ends = ends.iter().map(|outcome| (Timestamp::UNIX_EPOCH, *outcome)).collect();
        StatusRow { name: "j".to_owned(), state, ends }
    }

    #[test]
    fn a_job_is_as_its_last_decisive_run_was() {
        use Outcome::{Cancelled, Completed, Failed, Missed, Skipped, Timeout};
        for (state, ends, expected) in [
            (JobState::Enabled, &[Completed, Failed][..], Health::Well),
            (JobState::Enabled, &[Failed, Completed], Health::Failing),
            (JobState::Enabled, &[Timeout], Health::Failing),
            (JobState::Enabled, &[Missed], Health::Failing),
            (JobState::Enabled, &[Skipped, Cancelled, Completed], Health::Well),
            (JobState::Enabled, &[Skipped], Health::Unknown),
            (JobState::Enabled, &[], Health::Unknown),
            (JobState::Paused, &[Failed], Health::Paused),
            (JobState::Completed, &[Completed], Health::Well),
        ] {
            assert_eq!(row(state, ends).health(), expected, "{state:?} {ends:?}");
        }
    }

    #[test]
    fn texts_are_no_markup() {
        let evil = StatusRow {
            name: "<img src=x onerror=alert(1)>&\"'\u{202e}\u{1b}".to_owned(),
            ..row(JobState::Enabled, &[Outcome::Failed])
        };
        let page =
            render("</title><script>alert(1)</script>", &[evil], Timestamp::UNIX_EPOCH, "/ui/");
        for wrong in ["<img", "<script", "\u{202e}", "\u{1b}", "</title><"] {
            assert!(!page.contains(wrong), "{wrong:?}: {page}");
        }
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;&amp;&quot;&#39;"), "{page}");
        assert!(page.contains("1 of 1 jobs fails."), "{page}");
    }
}
