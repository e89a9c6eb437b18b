//! Clients that well-known generators make of the description. The way of a job through them is a
//! program of `tests/rest` in their language.

use super::{Bed, file, program, run, tool};

#[test]
fn python_client_creates_triggers_waits_reads_and_deletes() {
    let bed = Bed::new();
    let package = bed.folder.path().join("punctual_client");
    let mut generate = program(tool("python/bin/openapi-python-client"));
    generate.args(["generate", "--meta", "none", "--path"]).arg(bed.description());
    run(generate.arg("--output-path").arg(&package));
    let mut walk = program(tool("python/bin/python"));
    walk.arg(file("walk.py")).args([bed.url(), bed.server.key.clone()]);
    let said = run(walk.env("PYTHONPATH", bed.folder.path()));
    assert_eq!(said, "created triggered COMPLETED hello deleted\n");
}

#[test]
fn typescript_client_creates_triggers_waits_reads_and_deletes() {
    let bed = Bed::new();
    let folder = bed.folder.path();
    let modules = tool("node/node_modules");
    std::os::unix::fs::symlink(&modules, folder.join("node_modules")).unwrap();
    for name in ["walk.ts", "tsconfig.json", "package.json"] {
        std::fs::copy(file(name), folder.join(name)).unwrap();
    }
    let mut generate = program(modules.join(".bin/openapi-typescript"));
    run(generate.arg(bed.description()).arg("--output").arg(folder.join("api.d.ts")));
    run(program(modules.join(".bin/tsc")).current_dir(folder));
    let mut walk = program("node");
    walk.arg("walk.js").args([bed.url(), bed.server.key.clone()]);
    let said = run(walk.current_dir(folder));
    assert_eq!(said, "created triggered COMPLETED hello deleted\n");
}
