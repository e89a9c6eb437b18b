//! Interprets responses: success or failure, the result, and the time to retry after.

use domain::action::HttpAction;
use domain::raw_json;
use jiff::SignedDuration;
use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::json;

use crate::exec::RESULT_BYTES_MAX;

/// Maximum Retry-After that is accepted. Without it an endpoint could stop a job for ever.
const RETRY_AFTER_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Whether a status means success.
pub(super) fn is_expected(action: &HttpAction, status: StatusCode) -> bool {
    let status = status.as_u16();
    match action.expected_status.as_slice() {
        [] => status / 100 == 2,
        expected => expected.iter().any(|code| *code == status || *code == status / 100),
    }
}

/// How long the endpoint asks to be left alone. A date counts from the endpoint's own clock, so
/// that ours does not matter.
pub(super) fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<SignedDuration> {
    if !matches!(status.as_u16(), 429 | 503) {
        return None;
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().map_or(RETRY_AFTER_MAX, SignedDuration::from_secs);
        return Some(seconds.min(RETRY_AFTER_MAX));
    }
    let until = rfc2822::parse(text).ok()?.timestamp();
    let now = rfc2822::parse(headers.get(DATE)?.to_str().ok()?.trim()).ok()?.timestamp();
    Some(until.duration_since(now).clamp(SignedDuration::ZERO, RETRY_AFTER_MAX))
}

/// The result of a run: JSON as it is, other text as a JSON string, everything else as a
/// description. The second value is a note for the user.
pub(super) fn result(body: &[u8], content_type: Option<&str>) -> (Option<String>, Option<String>) {
    if body.is_empty() {
        return (None, None);
    }
    let too_large = || {
        let limit = RESULT_BYTES_MAX >> 10;
        (None, Some(format!("the answer exceeds {limit} KB and is in the output only")))
    };
    let text = std::str::from_utf8(body).ok().filter(|text| !text.contains('\0'));
    let result = match text.map(|text| text.strip_prefix('\u{feff}').unwrap_or(text)) {
        Some(text) if text.len() > RESULT_BYTES_MAX => return too_large(),
        Some(text) if raw_json::check(text).is_ok() => text.trim().to_owned(),
        Some(text) => json!(text).to_string(),
        None => json!({ "bytes": body.len(), "content_type": content_type }).to_string(),
    };
    // Escaping may make a string longer.
    if result.len() > RESULT_BYTES_MAX { too_large() } else { (Some(result), None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_classes_of_them_mean_success() {
        for (expected, status, success) in [
            (&[][..], 200, true),
            (&[], 204, true),
            (&[], 299, true),
            (&[], 199, false),
            (&[], 302, false),
            (&[], 404, false),
            (&[2, 404], 404, true),
            (&[2, 404], 201, true),
            (&[2, 404], 403, false),
            (&[204], 200, false),
            (&[3], 304, true),
            (&[5], 503, true),
        ] {
            let action: HttpAction = serde_json::from_value(
                json!({ "endpoint": "http://e.org", "expected_status": expected }),
            )
            .unwrap();
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_expected(&action, status), success, "{expected:?} {status}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_by_the_clock_of_the_endpoint() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (status, after, now, seconds) in [
            (503, "120", None, Some(120)),
            (429, " 7 ", None, Some(7)),
            (429, "0", None, Some(0)),
            (429, "99999999999999999999", None, Some(86_400)),
            (429, "86401", None, Some(86_400)),
            (503, "Sat, 06 Nov 2094 08:51:37 GMT", Some(date), Some(86_400)),
            (503, "Sun, 06 Nov 1994 08:51:37 GMT", Some(date), Some(120)),
            (503, "Sun, 06 Nov 1994 08:49:00 GMT", Some(date), Some(0)),
            (503, "Sun, 06 Nov 1994 08:51:37 GMT", None, None),
            (503, "Sun, 06 Nov 1994 08:51:37 GMT", Some("now"), None),
            (503, "-5", None, None),
            (503, "1.5", None, None),
            (503, "soon", Some(date), None),
            (503, "", None, None),
            (500, "120", None, None),
            (200, "120", None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, after.parse().unwrap());
            if let Some(now) = now {
                headers.insert(DATE, now.parse().unwrap());
            }
            let found = retry_after(StatusCode::from_u16(status).unwrap(), &headers);
            let seconds = seconds.map(SignedDuration::from_secs);
            assert_eq!(found, seconds, "{status} {after:?} {now:?}");
        }
    }

    #[test]
    fn a_result_is_json_text_or_a_description() {
        let large = format!("[{}1]", "1,".repeat(RESULT_BYTES_MAX / 2));
        let quotes = "\"".repeat(RESULT_BYTES_MAX / 2);
        let deep = "[".repeat(500) + &"]".repeat(500);
        let quoted = format!("\"{deep}\"");
        for (body, content_type, expected) in [
            (&b""[..], None, None),
            (b"{\"a\": 1}\n", Some("application/json"), Some("{\"a\": 1}")),
            (b"[1]", Some("text/plain"), Some("[1]")),
            (b"\xef\xbb\xbf{}", None, Some("{}")),
            (b"done", None, Some("\"done\"")),
            (b"{\"a\": 1", Some("application/json"), Some("\"{\\\"a\\\": 1\"")),
            ("größe\u{7}".as_bytes(), None, Some("\"größe\\u0007\"")),
            (b"\x89PNG\0", Some("image/png"), Some("{\"bytes\":5,\"content_type\":\"image/png\"}")),
            (b"\xff\xfe", None, Some("{\"bytes\":2,\"content_type\":null}")),
            (deep.as_bytes(), None, Some(&quoted)),
            (large.as_bytes(), None, None),
            (quotes.as_bytes(), None, None),
        ] {
            let (found, note) = result(body, content_type);
            let shown = String::from_utf8_lossy(&body[..body.len().min(30)]);
            assert_eq!(found.as_deref(), expected, "{shown}");
            assert_eq!(note.is_some(), body.len() > 1000 && expected.is_none(), "{shown}");
        }
    }
}
