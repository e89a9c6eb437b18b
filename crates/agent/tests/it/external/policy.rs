//! The allowed commands, arguments and variables.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::run::AttemptEnd;

use super::{World, action, assert_refused, assignment};

#[tokio::test]
async fn nothing_starts_unless_it_is_switched_on() {
    let mut world = World::new();
    let job = world.script("echo hello");
    world.options.enabled = false;
    assert_refused(&world.run(&job).await, "EXTERNAL_DISABLED", "external.enabled = false");
    world.options.enabled = true;
    world.options.allow.clear();
    let outcome = world.run(&job).await;
    assert_refused(&outcome, "COMMAND_NOT_ALLOWED", "the configuration allows nothing");
}

#[tokio::test]
async fn only_what_is_listed_starts() {
    let mut world = World::new();
    let commands = world.dir.path().join("commands");
    let hello = world.file("hello", "#!/bin/sh\necho hello\n");
    fs::create_dir(commands.join("sub")).unwrap();
    fs::copy(&hello, commands.join("sub/deep")).unwrap();
    symlink("/usr/bin/id", commands.join("escape")).unwrap();
    symlink("/usr/bin", commands.join("elsewhere")).unwrap();
    symlink("hello", commands.join("alias")).unwrap();
    fs::write(commands.join("data"), "no program").unwrap();
    let inside = commands.to_str().unwrap().to_owned();
    for (command, answer) in [
        (format!("{inside}/hello"), "hello\n"),
        ("hello".into(), "hello\n"),
        ("sub/deep".into(), "hello\n"),
        ("alias".into(), "hello\n"),
        (format!("{inside}//./hello"), "hello\n"),
        ("/usr/bin/id".into(), "COMMAND_NOT_ALLOWED"),
        ("id".into(), "COMMAND_NOT_FOUND"),
        ("escape".into(), "COMMAND_NOT_ALLOWED"),
        (format!("{inside}/escape"), "COMMAND_NOT_ALLOWED"),
        (format!("{inside}/elsewhere/id"), "COMMAND_NOT_ALLOWED"),
        (format!("{inside}/../commands/hello"), "COMMAND_NOT_ALLOWED"),
        (format!("{inside}/../../../../usr/bin/id"), "COMMAND_NOT_ALLOWED"),
        (format!("{inside}2/hello"), "COMMAND_NOT_ALLOWED"),
        (inside.clone(), "COMMAND_NOT_ALLOWED"),
        ("data".into(), "PERMISSION_DENIED"),
        ("sub".into(), "PERMISSION_DENIED"),
        ("hello ".into(), "COMMAND_NOT_FOUND"),
        ("hello; id".into(), "COMMAND_NOT_FOUND"),
    ] {
        let outcome = world.run(&assignment(&command)).await;
        if answer == "hello\n" {
            assert_eq!(outcome.stdout, answer, "{command}: {:?}", outcome.result);
        } else {
            assert_refused(&outcome, answer, "command:");
        }
    }
    // One file, under its own name or through a link of the system.
    world.options.allow = vec!["/bin/sh".into()];
    for (command, is_allowed) in [("/bin/sh", true), ("/usr/bin/id", false)] {
        let mut job = assignment(command);
        action(&mut job).arguments = vec!["-c".into(), "echo $0".into()];
        let outcome = world.run(&job).await;
        assert_eq!(outcome.stdout, if is_allowed { "/bin/sh\n" } else { "" });
        assert_eq!(outcome.result.end == AttemptEnd::Completed, is_allowed);
    }
}

#[tokio::test]
async fn a_command_that_is_swapped_for_a_link_does_not_start() {
    let world = World::new();
    let real = world.file("real", "#!/bin/sh\necho allowed\n");
    let commands = world.dir.path().join("commands");
    let is_over = Arc::new(AtomicBool::new(false));
    let swapping = {
        let is_over = is_over.clone();
        let (target, next) = (commands.join("swapped"), commands.join("next"));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                fs::hard_link(&real, &next).unwrap();
                fs::rename(&next, &target).unwrap();
                symlink("/usr/bin/id", &next).unwrap();
                fs::rename(&next, &target).unwrap();
            }
        })
    };
    // At the first look, or between it and the start.
    let (mut started, mut looked_through, mut caught) = (0, 0, 0);
    for _ in 0..300 {
        let outcome = world.run(&assignment("swapped")).await;
        if outcome.result.end == AttemptEnd::Completed {
            assert_eq!(outcome.stdout, "allowed\n");
            started += 1;
        } else {
            // The file itself, or nothing: never the target of the link.
            assert_eq!(outcome.stdout, "", "{:?}", outcome.result);
            let is_late = outcome.result.message.contains("changed while it was looked at");
            *(if is_late { &mut caught } else { &mut looked_through }) += 1;
        }
        if started > 5 && looked_through > 5 && caught > 5 {
            break;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    println!("{started} started, {looked_through} refused at once, {caught} at the last moment");
    assert!(started > 0 && looked_through > 0);
}

#[tokio::test]
async fn arguments_are_what_was_written() {
    let world = World::new();
    let mut job = world.script("for a in \"$@\"; do printf '<%s>' \"$a\"; done");
    let arguments = ["; $(id)", "`id`", "a b", "--opt", "*", "", "line\nbreak", "ünï", "$HOME"];
    action(&mut job).arguments = arguments.map(str::to_owned).into();
    let outcome = world.run(&job).await;
    let expected: String = arguments.iter().map(|argument| format!("<{argument}>")).collect();
    assert_eq!(outcome.stdout, expected);
}

#[tokio::test]
async fn the_environment_holds_what_is_listed_and_nothing_else() {
    let mut world = World::new();
    world.options.variables = vec!["REGION".into(), "APP_*".into()];
    world.secrets.0.insert("TOKEN".into(), "s3cret".into());
    let mut job =
        world.script("env | sort; echo; cat; echo ${#REGION} >&2; echo $REGION >&2; exit 1");
    let environment = &mut action(&mut job).environment;
    environment.insert("REGION".into(), "eu ${secrets.TOKEN}".into());
    environment.insert("APP_MODE".into(), "$(id)".into());
    let outcome = world.run(&job).await;
    let (variables, stdin) = outcome.stdout.split_once("\n\n").unwrap();
    let names: Vec<_> = variables.lines().filter_map(|line| line.split('=').next()).collect();
    assert_eq!(
        names,
        [
            "APP_MODE",
            "HOME",
            "LANG",
            "PATH",
            "PUNCTUAL_ATTEMPT",
            "PUNCTUAL_DEADLINE",
            "PUNCTUAL_FENCE",
            "PUNCTUAL_JOB_NAME",
            "PUNCTUAL_JOB_UUID",
            "PUNCTUAL_RUN",
            "PUNCTUAL_SCHEDULED_FOR",
            "PUNCTUAL_SHARD",
            "PWD",
            "REGION",
            "TMPDIR",
            "TRACEPARENT",
        ]
    );
    // It has the secret, as its length shows, and its output does not.
    for line in ["REGION=eu ***", "APP_MODE=$(id)", "PUNCTUAL_FENCE=7", "TMPDIR=/tmp"] {
        assert!(variables.lines().any(|variable| variable == line), "{line}: {variables}");
    }
    assert_eq!(outcome.stderr, "9\neu ***\n");
    assert!(outcome.result.message.ends_with(": eu ***"), "{}", outcome.result.message);
    assert_eq!(stdin, r#"{"day":"monday"}"#, "the parameters are its standard input");
}

#[tokio::test]
async fn variables_and_secrets_that_are_not_allowed_are_refused() {
    let mut world = World::new();
    world.options.variables = vec!["*".into()];
    for (name, value, code, words) in [
        ("LD_PRELOAD", "/tmp/x.so", "VARIABLE_NOT_ALLOWED", "LD_PRELOAD"),
        ("PATH", "/tmp", "VARIABLE_NOT_ALLOWED", "never allowed"),
        ("BASH_ENV", "/tmp/x", "VARIABLE_NOT_ALLOWED", "BASH_ENV"),
        ("PUNCTUAL_FENCE", "99", "VARIABLE_NOT_ALLOWED", "PUNCTUAL_FENCE"),
        ("A", "${secrets.MISSING}", "SECRET_NOT_FOUND", "MISSING"),
    ] {
        let mut job = world.script("echo started");
        action(&mut job).environment.insert(name.into(), value.into());
        assert_refused(&world.run(&job).await, code, words);
    }
    let mut job = world.script("echo started");
    action(&mut job).arguments = vec!["x".into(), "${secrets.TOKEN}".into()];
    assert_refused(&world.run(&job).await, "SECRET_IN_ARGUMENTS", "number 2");
    world.options.variables.clear();
    action(&mut job).arguments.clear();
    action(&mut job).environment.insert("A".into(), "b".into());
    assert_refused(&world.run(&job).await, "VARIABLE_NOT_ALLOWED", "may set: none");
}

#[tokio::test]
async fn what_cannot_be_executed_is_explained() {
    let world = World::new();
    world.file("interpreter", "#!/no/such/interpreter\n");
    world.file("format", "neither\n");
    world.file("empty", "");
    world.file("damaged", "\x7fELF and then nothing");
    for (command, code, words) in [
        ("interpreter", "INTERPRETER_NOT_FOUND", "first line"),
        ("format", "EXEC_FORMAT_ERROR", "begins with #!"),
        ("empty", "EXEC_FORMAT_ERROR", "begins with #!"),
        ("damaged", "EXEC_FORMAT_ERROR", "begins with #!"),
    ] {
        assert_refused(&world.run(&assignment(command)).await, code, words);
    }
}

#[tokio::test]
async fn arguments_that_are_too_long_are_not_tried_again() {
    let world = World::new();
    let mut job = world.script("echo started");
    action(&mut job).arguments = vec!["x".repeat(200_000)];
    assert_refused(&world.run(&job).await, "ARGUMENTS_TOO_LONG", "128 KB");
    action(&mut job).arguments = vec!["x".repeat(100_000); 10];
    job.run = super::new_run();
    let outcome = world.run(&job).await;
    assert_eq!(outcome.stdout, "started\n", "{:?}", outcome.result);
}

#[test]
fn options_are_checked() {
    let world = World::new();
    let check = |change: &dyn Fn(&mut agent::ExternalOptions)| {
        let mut options = world.options.clone();
        change(&mut options);
        options.check().map_or_else(|problem| problem.to_string(), |()| "ok".to_owned())
    };
    assert_eq!(check(&|_| {}), "ok");
    assert_eq!(agent::ExternalOptions::default().check(), Ok(()));
    let answer = check(&|options| options.allow.clear());
    assert_eq!(answer, "allow: is empty: name the commands, or folders of them");
    let answer = check(&|options| options.readable.push("data".into()));
    assert_eq!(answer, "readable: \"data\" must be an absolute path");
    let answer = check(&|options| options.writable.push("/".into()));
    assert_eq!(answer, "writable: must not be /, which has everything in it");
    let answer = check(&|options| options.working_directory = Some("/no/such".into()));
    assert!(answer.starts_with("working_directory: \"/no/such\" must be"), "{answer}");
    let answer = check(&|options| options.working_directory = Some("/".into()));
    assert_eq!(answer, "working_directory: must be a folder for commands, not /");
    let answer = check(&|options| options.working_directory = options.protected.first().cloned());
    assert!(answer.starts_with("working_directory: must not be inside"), "{answer}");
    let answer = check(&|options| options.variables.push("A=B".into()));
    assert_eq!(answer, "environment: \"A=B\" is not a variable name");
}
