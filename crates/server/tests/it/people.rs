//! Tenants and users for tests, and requests in their names.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::world::{Reply, World};

/// A user with a key.
#[derive(Clone, Debug)]
pub struct Person {
    pub tenant: String,
    pub key: String,
}

impl World {
    /// Sends a request with the key of a user, or with none.
    pub async fn call_as(
        &self,
        key: Option<&str>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Reply {
        self.send(request(key, method, path, headers, body)).await
    }

    /// Asks as the administrator of the cluster, in a tenant; it must go well.
    pub async fn rule(&self, tenant: &str, method: &str, path: &str, body: Value) -> Value {
        let headers = [("punctual-tenant", tenant)];
        let reply = self.call(method, path, &headers, Some(body)).await;
        assert!(reply.status < 300, "{method} {path}: {} {}", reply.status, reply.text);
        if reply.text.is_empty() { Value::Null } else { reply.json() }
    }

    pub async fn tenant(&self, name: &str) -> Value {
        self.rule("default", "POST", "/v1/tenants", json!({"name": name})).await
    }

    /// A user with these privileges, and a key.
    pub async fn person(&self, tenant: &str, name: &str, privileges: &[&str]) -> Person {
        self.rule(tenant, "POST", "/v1/users", json!({"name": name})).await;
        for privilege in privileges {
            let grant = json!({"to_user": name, "privilege": privilege});
            self.rule(tenant, "POST", "/v1/grants", grant).await;
        }
        let key = self.rule(tenant, "POST", "/v1/keys", json!({"user": name})).await;
        let key = key["key"].as_str().unwrap().to_owned();
        Person { tenant: tenant.to_owned(), key }
    }

    /// Sends a request with the key of a user.
    pub async fn ask(&self, person: &Person, method: &str, path: &str, body: Value) -> Reply {
        let body = Some(body).filter(|body| !body.is_null());
        self.call_as(Some(&person.key), method, path, &[], body).await
    }
}

/// A request with the key of a user, or with none; a body is JSON.
pub fn request(
    key: Option<&str>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header("x-request-id", "same");
    if let Some(key) = key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.map_or(Body::empty(), |body| Body::from(body.to_string()))).unwrap()
}
