//! Every operation of the description with data that it allows and data that it forbids. The
//! requests and the disabled checks are in `tests/rest/schemathesis.toml`.

use serde_json::json;

use super::{Bed, file, program, run, tool};

#[test]
fn the_server_does_what_its_description_says() {
    let bed = Bed::new();
    let mut config = std::fs::read_to_string(file("schemathesis.toml")).unwrap();
    // The jobs that the settings name. The ids of their runs are in the responses.
    for n in 1..=3 {
        let name = format!("sample-{n}");
        let job = json!({"name": name, "job_type": "MANUAL", "payload": {"type": "NOOP"}});
        assert_eq!(bed.server.call("POST", "/v1/jobs", Some(&job)).0, 201);
        let chosen = format!("01900000-0000-7000-8000-00000000000{n}");
        let path = format!("/v1/jobs/{name}/trigger");
        let body = json!({ "execution_id": chosen });
        let (status, accepted) = bed.server.call("POST", &path, Some(&body));
        assert_eq!(status, 202, "{accepted}");
        assert!(config.contains(&chosen), "the settings name {chosen}");
        config = config.replace(&chosen, accepted["execution_id"].as_str().unwrap());
    }
    let settings = bed.folder.path().join("schemathesis.toml");
    std::fs::write(&settings, config).unwrap();
    let mut tester = program(tool("python/bin/schemathesis"));
    tester.arg("--config-file").arg(settings).arg("run").arg("--no-color");
    tester.arg("--header").arg(format!("Authorization: Bearer {}", bed.server.key));
    let said = run(tester.arg(bed.url() + "/openapi.json").current_dir(bed.folder.path()));
    // It has tested more than authentication.
    let words: Vec<&str> = said.split_whitespace().collect();
    let place = words.iter().position(|word| *word == "generated,");
    let cases = place.and_then(|place| words[place - 1].parse::<u32>().ok());
    assert!(cases > Some(1_000), "{said}");
}
