//! The description of the API: `/openapi.json`, and a page that shows it without asking any other
//! machine.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use axum::response::Html;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder, Schema, SecurityRequirement,
};
use utoipa::{OpenApi as _, ToSchema as _};

use crate::problem::{Code, ErrorBody};
use crate::{public_routes, rest};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Punctual",
        description = "Jobs that run on time. Every request carries `Authorization: Bearer <key>`.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(ErrorBody))
)]
struct Description;

/// The description of every route.
pub fn describe() -> OpenApi {
    let mut api = Description::openapi();
    let (_, private) = rest::routes().split_for_parts();
    let (_, public) = public_routes().split_for_parts();
    api.merge(private);
    api.merge(public);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = api.components.get_or_insert_default();
    components.security_schemes.insert("key".to_owned(), SecurityScheme::Http(bearer).into());
    api.security = Some(vec![SecurityRequirement::new("key", [] as [&str; 0])]);
    for item in api.paths.paths.values_mut() {
        if let Some(patch) = &mut item.patch {
            let components = api.components.get_or_insert_default();
            describe_patch(patch, &mut components.schemas);
        }
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch];
        operations.into_iter().chain([&mut item.delete]).flatten().for_each(complete);
    }
    api
}

/// Says about an operation what its attributes cannot.
fn complete(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter {
            without_null(parameter);
            describe_common(parameter);
        }
    }
    // A body may be left out as well, and then it is not null either.
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        for content in body.content.values_mut() {
            if let RefOr::T(content) = content
                && let Some(RefOr::T(Schema::OneOf(either))) = &content.schema
                && let [some, RefOr::T(Schema::Object(null))] = &either.items[..]
                && null.schema_type == SchemaType::Type(Type::Null)
            {
                content.schema = Some(some.clone());
            }
        }
    }
    let common = common_errors(operation);
    let responses = &mut operation.responses.responses;
    for status in common {
        responses.entry(status.to_owned()).or_insert_with(|| error_response().into());
    }
    for (status, response) in responses {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            response.description = meaning(status);
        }
    }
}

/// The statuses of errors that an operation can answer because of its parts: a key, a body,
/// parameters, a condition. Its attributes name only those of its own.
fn common_errors(operation: &Operation) -> Vec<&'static str> {
    // An operation with its own security needs no key; its attributes say what it checks instead.
    if operation.security.is_some() {
        let checks = operation.responses.responses.contains_key("401");
        return if checks { vec!["403", "429"] } else { Vec::new() };
    }
    let parameters = || operation.parameters.iter().flatten();
    let has = |test: &dyn Fn(&Parameter) -> bool| {
        parameters().any(|it| matches!(it, RefOr::T(parameter) if test(parameter)))
    };
    let parts: [(bool, &[&str]); 6] = [
        (true, &["401", "403", "429"]),
        (operation.request_body.is_some(), &["400", "413", "415", "422"]),
        (has(&|it| it.parameter_in == ParameterIn::Path), &["404"]),
        (has(&|it| it.parameter_in == ParameterIn::Query), &["400"]),
        (has(&|it| it.name == "If-Match"), &["400", "409", "412", "428"]),
        (has(&|it| it.name == "Idempotency-Key"), &["400", "409", "503"]),
    ];
    parts.iter().filter(|(is_there, _)| *is_there).flat_map(|(_, codes)| *codes).copied().collect()
}

fn error_response() -> Response {
    let error = Ref::from_schema_name(ErrorBody::name());
    let content = ContentBuilder::new().schema(Some(error)).build();
    ResponseBuilder::new().content("application/json", content).build()
}

/// Adds the schema that parameters of these names have in every operation.
fn describe_common(parameter: &mut Parameter) {
    let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema else { return };
    match parameter.name.as_str() {
        "If-Match" => object.pattern = Some(r#"^(\*|(W/)?"[0-9]{1,9}")$"#.to_owned()),
        "cursor" => object.pattern = Some("^[A-Za-z0-9_-]+$".to_owned()),
        "Idempotency-Key" => {
            (object.min_length, object.max_length) = (Some(1), Some(255));
            object.pattern = Some("^[!-~]+$".to_owned());
        }
        _ => {}
    }
}

/// Describes a merge patch: all fields are optional, and null removes an optional one. The
/// operation names the schema of the complete object.
fn describe_patch(operation: &mut Operation, schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    for content in body.content.values_mut() {
        let RefOr::T(content) = content else { continue };
        let Some(RefOr::Ref(whole)) = &mut content.schema else { continue };
        let Some(name) = whole.ref_location.rsplit('/').next() else { continue };
        let Some(RefOr::T(Schema::Object(mut patch))) = schemas.get(name).cloned() else {
            continue;
        };
        let required = std::mem::take(&mut patch.required);
        for (field, schema) in &mut patch.properties {
            if let RefOr::T(Schema::Object(object)) = schema
                && let SchemaType::Type(kind) = &object.schema_type
                && !required.contains(field)
            {
                object.schema_type = SchemaType::Array(vec![kind.clone(), Type::Null]);
            }
        }
        let stem = name.strip_suffix("Spec").or_else(|| name.strip_suffix("Patch"));
        let name = format!("{}Patch", stem.unwrap_or(name));
        whole.ref_location = format!("#/components/schemas/{name}");
        schemas.insert(name, RefOr::T(Schema::Object(patch)));
    }
}

/// The description of a status: its name, and the codes of errors that come with it.
fn meaning(status: &str) -> String {
    let status = status.parse::<u16>().unwrap_or_default();
    let name = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let codes = Code::ALL.iter().filter(|code| code.status() == status);
    let codes: Vec<String> = codes.map(|code| format!("`{}`", code.name())).collect();
    match codes.len() {
        0 => name.unwrap_or("Other").to_owned(),
        _ => format!("{}: {}", name.unwrap_or("Error"), codes.join(", ")),
    }
}

/// A parameter or header may be left out; it cannot be null, which is a word like any other there.
fn without_null(parameter: &mut Parameter) {
    let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema else { return };
    if let SchemaType::Array(types) = &mut object.schema_type {
        types.retain(|kind| *kind != Type::Null);
        if let [only] = &types[..] {
            object.schema_type = SchemaType::Type(only.clone());
        }
    }
}

/// The description of every route, as OpenAPI 3.1.
#[utoipa::path(get, path = "/openapi.json", tag = "server", security(()), responses((status = 200, body = Object)))]
pub(crate) async fn openapi_json() -> Json<OpenApi> {
    Json(describe())
}

/// The description as a page.
#[utoipa::path(get, path = "/docs", tag = "server", security(()), responses((status = 200, body = String, content_type = "text/html")))]
pub(crate) async fn docs() -> Html<String> {
    Html(page(&describe()))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page that needs no script: every route with what it takes and answers.
fn page(api: &OpenApi) -> String {
    let value = serde_json::to_value(api).unwrap_or_default();
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Punctual API</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><h1>Punctual API</h1>\
         <p>Send <code>Authorization: Bearer &lt;key&gt;</code>. The whole description is \
         <a href=\"/openapi.json\">openapi.json</a>.</p>",
    );
    for (path, item) in value["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            page.push_str(&format!(
                "<details><summary><b>{}</b> <code>{}</code> {}</summary>",
                method.to_uppercase(),
                escape(path),
                escape(operation["summary"].as_str().unwrap_or_default()),
            ));
            if let Some(text) = operation["description"].as_str() {
                page.push_str(&format!("<p>{}</p>", escape(text)));
            }
            page.push_str("<ul>");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                page.push_str(&format!(
                    "<li><code>{}</code> ({}) {}</li>",
                    escape(parameter["name"].as_str().unwrap_or_default()),
                    escape(parameter["in"].as_str().unwrap_or_default()),
                    escape(parameter["description"].as_str().unwrap_or_default()),
                ));
            }
            page.push_str("</ul>");
            for (word, part) in
                [("Body", &operation["requestBody"]), ("Answers", &operation["responses"])]
            {
                if !part.is_null() {
                    let text = serde_json::to_string_pretty(part).unwrap_or_default();
                    page.push_str(&format!("<h4>{word}</h4><pre>{}</pre>", escape(&text)));
                }
            }
            page.push_str("</details>");
        }
    }
    page.push_str("<h2>Errors</h2><dl>");
    for code in Code::ALL {
        page.push_str(&format!(
            "<dt id=\"{}\"><code>{}</code> ({})</dt><dd>{}</dd>",
            code.anchor(),
            code.name(),
            code.status(),
            escape(code.title()),
        ));
    }
    page.push_str("</dl><h2>Shapes</h2>");
    for (name, schema) in value["components"]["schemas"].as_object().into_iter().flatten() {
        let text = serde_json::to_string_pretty(schema).unwrap_or_default();
        page.push_str(&format!(
            "<details><summary><code>{}</code></summary><pre>{}</pre></details>",
            escape(name),
            escape(&text)
        ));
    }
    page
}
