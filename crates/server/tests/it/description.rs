//! The description of the API is a file of the repository: a change of the API shows in its diff.

use std::path::Path;

use crate::world::World;

#[expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN=1 writes the file anew")]
fn wants_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

#[test]
fn the_file_is_what_the_server_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let text = server::describe().to_pretty_json().unwrap() + "\n";
    if wants_update() {
        std::fs::write(&path, &text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "run the test with UPDATE_GOLDEN=1 and look at the diff of {path:?}");
}

/// Clients that are generated from the description name their functions so.
#[test]
fn no_two_operations_have_one_name() {
    let api = serde_json::to_value(server::describe()).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            let address = format!("{method} {path}");
            assert_eq!(seen.insert(name, address.clone()), None, "{address}");
        }
    }
}

#[tokio::test]
async fn the_page_needs_no_other_machine() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let page = world.get("/docs").await.text;
    assert!(page.contains("/v1/jobs/{job_id}/trigger"));
    // Targets of the `type` of problems.
    for code in server::Code::ALL {
        assert!(page.contains(&format!("<dt id=\"{}\">", code.anchor())), "{code:?}");
    }
    assert!(!page.contains("<script") && !page.contains("//cdn"), "{page}");
    let api = world.get("/openapi.json").await.json();
    assert_eq!(api["openapi"], "3.1.0");
    assert!(api["components"]["schemas"]["JobSpec"]["properties"]["cron_expression"].is_object());
}
