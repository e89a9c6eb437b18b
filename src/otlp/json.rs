//! Spans in the JSON form of OTLP: ids in hexadecimal, 64-bit numbers as text, kinds as numbers.

use serde_json::{Value as Json, json};

use super::span::{AttributeValue, Span};

/// `SPAN_KIND_INTERNAL` of the OTLP enum `SpanKind`.
const INTERNAL: u8 = 1;

/// `STATUS_CODE_ERROR` of the OTLP enum `StatusCode`.
const ERROR: u8 = 2;

/// The body of a request with these spans of a node.
pub fn request(node: &str, spans: &[Span]) -> Json {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        attribute("service.name", &AttributeValue::Text("punctual".into())),
        attribute("service.version", &AttributeValue::Text(version.into())),
        attribute("service.instance.id", &AttributeValue::Text(node.into())),
    ];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "punctual", "version": version },
            "spans": spans.iter().map(span).collect::<Vec<Json>>(),
        }],
    }]})
}

fn span(span: &Span) -> Json {
    let attributes: Vec<Json> =
        span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let mut json = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": span.from.as_nanosecond().to_string(),
        "endTimeUnixNano": span.until.as_nanosecond().to_string(),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(error) = &span.error {
        json["status"] = json!({ "code": ERROR, "message": error });
    }
    json
}

fn attribute(key: &str, value: &AttributeValue) -> Json {
    let value = match value {
        AttributeValue::Text(text) => json!({ "stringValue": text }),
        AttributeValue::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": key, "value": value })
}
