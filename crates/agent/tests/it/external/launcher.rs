//! The process that starts commands: changes on the machine reach it, and it may die.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use agent::sandbox::Level;
use agent::{Agent, Stop};
use domain::action::Assignment;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::{HELPER, Outcome, World, assignment, open_to_all, processes, wait_for};

async fn run(world: &World, agent: &Agent, job: &Assignment) -> Outcome {
    let (_quiet, requests) = watch::channel(None);
    world.run_by(agent, job, Stop::new(requests)).await
}

/// The launchers that this process has started, and their children.
fn launchers() -> Vec<Pid> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let Some(number) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        let Ok(arguments) = fs::read_to_string(path.join("cmdline")) else { continue };
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if arguments.contains("__exec") && parent == Some(own.as_str()) {
            found.push(Pid::from_raw(number));
        }
    }
    found
}

#[tokio::test]
async fn what_is_replaced_on_the_machine_is_replaced_for_commands() {
    let mut world = World::new();
    let file = world.file("greet", "#!/bin/sh\necho one\n");
    let (old, new) = (world.dir.path().join("v1"), world.dir.path().join("v2"));
    for (folder, text) in [(&old, "folder one"), (&new, "folder two")] {
        fs::create_dir(folder).unwrap();
        open_to_all(folder);
        fs::write(folder.join("deployed"), format!("#!/bin/sh\necho {text}\n")).unwrap();
        fs::set_permissions(folder.join("deployed"), Permissions::from_mode(0o755)).unwrap();
    }
    let current = world.dir.path().join("current");
    symlink(&old, &current).unwrap();
    world.options.allow = vec![file.clone(), current.clone()];
    let agent = world.agent();
    let deployed = current.join("deployed");
    let deployed = deployed.to_str().unwrap();
    assert_eq!(run(&world, &agent, &assignment("greet")).await.stdout, "one\n");
    assert_eq!(run(&world, &agent, &assignment(deployed)).await.stdout, "folder one\n");
    let next = world.file("next", "#!/bin/sh\necho two\n");
    fs::rename(next, &file).unwrap();
    assert_eq!(run(&world, &agent, &assignment("greet")).await.stdout, "two\n");
    let link = world.dir.path().join("link");
    symlink(&new, &link).unwrap();
    fs::rename(link, &current).unwrap();
    assert_eq!(run(&world, &agent, &assignment(deployed)).await.stdout, "folder two\n");
    // A file that is added to a folder is visible at once.
    fs::copy(new.join("deployed"), new.join("added")).unwrap();
    let added = current.join("added");
    assert_eq!(
        run(&world, &agent, &assignment(added.to_str().unwrap())).await.stdout,
        "folder two\n"
    );
}

/// The children of a process.
fn children(of: i32) -> Vec<i32> {
    let of = of.to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let children = entries.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        (parent == of).then(|| entry.file_name().to_str()?.parse().ok())?
    });
    children.collect()
}

/// An agent in a process of its own, which executes an assignment, and again on request.
struct Other {
    process: Child,
    stdin: ChildStdin,
    results: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(world: &World, level: Level, job: &Assignment) -> Self {
        let mut process = Command::new(HELPER)
            .arg(world.dir.path())
            .arg(serde_json::to_value(level).unwrap().as_str().unwrap())
            .arg(serde_json::to_string(job).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = process.stdin.take().unwrap();
        let results = BufReader::new(process.stdout.take().unwrap()).lines();
        Other { process, stdin, results }
    }

    async fn result(&mut self) -> String {
        self.results.next_line().await.unwrap().expect("a result")
    }

    async fn again(&mut self) -> String {
        self.stdin.write_all(b"\n").await.unwrap();
        self.result().await
    }

    /// Its launcher.
    fn launcher(&self) -> i32 {
        let found = children(self.process.id().unwrap().try_into().unwrap());
        assert_eq!(found.len(), 1, "one launcher");
        found[0]
    }
}

#[tokio::test]
async fn what_is_killed_while_a_command_runs_takes_the_command_with_it() {
    for level in [Level::Required, Level::Off] {
        let world = World::with_level(level);
        let job = world.script("(setsid sleep 1000 &); echo ready; sleep 1000");
        let mut other = Other::start(&world, level, &job);
        world.has_said(job.run, "ready").await;
        kill(Pid::from_raw(other.launcher()), Signal::SIGKILL).unwrap();
        if level == Level::Required {
            let result = other.result().await;
            assert!(result.contains("COMMAND_LOST"), "{result}");
        } else {
            // The helper between them goes on without the launcher, until the agent is gone.
            other.process.kill().await.unwrap();
        }
        wait_for("the end of everything", || processes(job.run).is_empty()).await;
    }
}

#[tokio::test]
async fn what_is_killed_between_two_commands_is_replaced() {
    let world = World::new();
    let job = world.script("echo started");
    let mut other = Other::start(&world, Level::Required, &job);
    let first = other.result().await;
    assert!(first.contains("Completed"), "{first}");
    // Its launcher has started the first process of its namespace, and that an init process.
    let launcher = other.launcher();
    let in_namespace = children(launcher);
    assert_eq!(in_namespace.len(), 1);
    let idle = children(in_namespace[0]);
    if nix::unistd::geteuid().is_root() {
        assert_eq!(idle.len(), 1, "an init process waits for the next command");
        kill(Pid::from_raw(idle[0]), Signal::SIGKILL).unwrap();
        wait_for("its end", || children(in_namespace[0]).is_empty()).await;
        let second = other.again().await;
        assert!(second.contains("Completed"), "{second}");
        assert_eq!(other.launcher(), launcher);
        let next = children(in_namespace[0]);
        assert!(next.len() == 1 && next != idle, "{next:?}");
        let third = other.again().await;
        assert!(third.contains("Completed"), "{third}");
        assert_eq!(children(in_namespace[0]), next, "the same once more");
    }
    kill(Pid::from_raw(launcher), Signal::SIGKILL).unwrap();
    wait_for("the end of the launcher", || !fs::exists(format!("/proc/{launcher}")).unwrap()).await;
    let last = other.again().await;
    assert!(last.contains("Completed"), "{last}");
    assert!(other.launcher() != launcher);
}

#[tokio::test]
async fn a_command_finds_nothing_of_the_one_before() {
    let world = World::new();
    let agent = world.agent();
    let first = "echo $$ > pid; cat pid; (setsid sleep 1000 &); python3 -c 'import os; os.nice(5)'; \
                 kill -STOP 1; renice 19 1; prlimit --pid 1 --nofile=3; ulimit -n 50; \
                 head -c 100000 /dev/zero > large; ipcmk -Q; exit 3";
    let first = run(&world, &agent, &world.script(first)).await;
    assert_eq!(first.details["exit_code"], 3, "{}", first.stderr);
    assert!(first.details["left_behind"].as_u64().unwrap() > 0, "{}", first.details);
    let second = "echo $$; ls -A; ls /proc | grep -c '^[0-9]'; ulimit -n; cut -d' ' -f19 /proc/1/stat; \
                  ipcs -q | grep -c 0x";
    let second = run(&world, &agent, &world.script(second)).await;
    let lines: Vec<&str> = second.stdout.lines().collect();
    let [pid, processes, files, nice, queues] = lines[..] else {
        panic!("{} {}", second.stdout, second.stderr);
    };
    if nix::unistd::geteuid().is_root() {
        let before: u32 = first.stdout.lines().next().unwrap().parse().unwrap();
        assert!(pid.parse::<u32>().unwrap() > before, "the namespace is the same");
    }
    // The init process, the shell, and those of the pipe.
    assert!(processes.parse::<u32>().unwrap() <= 5, "{processes}");
    // The priority is that of this process.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let own_nice = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap();
    assert_eq!((files, nice, queues), ("1024", own_nice, "0"));
    assert!(second.details["usage"]["peak_memory_bytes"].as_u64().unwrap() < 100 << 20);
}

#[tokio::test]
async fn an_agent_that_is_gone_leaves_no_launcher() {
    let world = World::new();
    let before = launchers();
    let agent = world.agent();
    assert_eq!(run(&world, &agent, &world.script("echo 1")).await.stdout, "1\n");
    let mine: Vec<Pid> = launchers().into_iter().filter(|one| !before.contains(one)).collect();
    assert!(!mine.is_empty());
    drop(agent);
    let is_gone = |one: &Pid| !launchers().contains(one);
    // Those of tests beside this one go, too.
    wait_for("the end of the launcher", || mine.iter().all(is_gone)).await;
}

#[tokio::test]
async fn many_at_once_are_kept_apart() {
    let world = World::new();
    let agent = world.agent();
    let jobs: Vec<Assignment> = (0..24)
        .map(|number| {
            let name = format!("job{number}");
            let text = format!(
                "#!/bin/sh\necho {number} > own; sleep 0.0{number}; cat *; exit {number}\n"
            );
            assignment(world.file(&name, &text).to_str().unwrap())
        })
        .collect();
    let runs = jobs.iter().map(|job| run(&world, &agent, job));
    for (number, outcome) in futures_util::future::join_all(runs).await.iter().enumerate() {
        assert_eq!(outcome.stdout, format!("{number}\n"), "{:?}", outcome.result);
        let code = outcome.details.get("exit_code").map(ToString::to_string);
        assert_eq!(code, (number > 0).then(|| number.to_string()));
    }
}

#[tokio::test]
async fn an_ordinary_user_gets_the_same_sandbox() {
    if !nix::unistd::geteuid().is_root() {
        println!("NOT exercised: the other tests are those of an ordinary user");
        return;
    }
    let world = World::new();
    // Where that user can reach it.
    let helper = world.dir.path().join("agent");
    fs::copy(HELPER, &helper).unwrap();
    fs::remove_dir_all(world.dir.path().join("outputs")).unwrap();
    let script = "id -u; pwd; ls -A; ls /run; cat /etc/shadow; echo x > x; cat x; \
                  unshare -Ur true || echo refused; grep -c . /proc/net/unix";
    let job = world.script(script);
    let output = Command::new("setpriv")
        .args(["--reuid=12345", "--regid=12345", "--clear-groups"])
        .arg(&helper)
        .arg(world.dir.path())
        .arg("required")
        .arg(serde_json::to_string(&job).unwrap())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("Completed"), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let text = world.text(job.run, agent::output::Stream::Stdout);
    assert_eq!(text, "12345\n/tmp\nx\nrefused\n1\n", "{said}");
}
