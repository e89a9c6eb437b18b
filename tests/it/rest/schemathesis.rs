//! Every operation of the description with data that it allows and data that it forbids. What is
//! tried, and which checks are taken back, is in `tests/rest/schemathesis.toml`.

use serde_json::json;

use super::{Bed, file, program, run, tool};

#[test]
fn the_server_does_what_its_description_says() {
    let bed = Bed::new();
    // What the settings name.
    for n in 1..=3 {
        let name = format!("sample-{n}");
        let job = json!({"name": name, "job_type": "MANUAL", "payload": {"type": "NOOP"}});
        assert_eq!(bed.server.call("POST", "/v1/jobs", Some(&job)).0, 201);
        let id = json!({"execution_id": format!("01900000-0000-7000-8000-00000000000{n}")});
        let path = format!("/v1/jobs/{name}/trigger");
        assert_eq!(bed.server.call("POST", &path, Some(&id)).0, 202);
    }
    let mut tester = program(tool("python/bin/schemathesis"));
    tester.arg("--config-file").arg(file("schemathesis.toml")).arg("run").arg("--no-color");
    tester.arg("--header").arg(format!("Authorization: Bearer {}", bed.server.key));
    let said = run(tester.arg(bed.url() + "/openapi.json").current_dir(bed.folder.path()));
    // It has looked at more than the way in.
    let words: Vec<&str> = said.split_whitespace().collect();
    let place = words.iter().position(|word| *word == "generated,");
    let cases = place.and_then(|place| words[place - 1].parse::<u32>().ok());
    assert!(cases > Some(1_000), "{said}");
}
