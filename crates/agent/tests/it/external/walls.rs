//! The restrictions of a command.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use agent::sandbox::{Feature, Level};
use agent::{ExternalOptions, Network};
use domain::run::{AttemptEnd, ErrorCode};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::{World, assert_refused, has, open_to_all};

#[tokio::test]
async fn what_is_in_force_is_told() {
    let world = World::new();
    let outcome = world.run(&world.script("true")).await;
    assert_eq!(outcome.result.end, AttemptEnd::Completed, "{:?}", outcome.result);
    let probed = world.options.probe().await.unwrap();
    println!("{probed:#?}");
    let report = &outcome.details["sandbox"]["report"];
    assert_eq!(report, &serde_json::to_value(&probed).unwrap(), "a probe tells the same");
    assert_eq!(outcome.details["sandbox"]["level"], "required");
    assert_eq!(probed.lacks(), None);
    let off = ExternalOptions { sandbox: Level::Off, ..world.options.clone() };
    let off = off.probe().await.unwrap();
    assert!(!off.in_force.contains_key(&Feature::Files), "{off:?}");
}

#[tokio::test]
async fn what_is_required_and_missing_is_refused() {
    let mut world = World::new();
    // A command that must see everything cannot be kept from the data folder: neither by rules nor
    // by a mount over the folder that it works in.
    world.options.working_directory = Some(world.dir.path().join("data"));
    world.options.protected = vec![world.dir.path().join("data/master.key"), "/proc/1".into()];
    world.options.readable = vec!["/".into()];
    let outcome = world.run(&world.script("echo started")).await;
    assert_refused(&outcome, "SANDBOX_UNAVAILABLE", "protected_files");
    world.options.sandbox = Level::BestEffort;
    let outcome = world.run(&world.script("echo started")).await;
    assert_eq!(outcome.stdout, "started\n");
    assert!(outcome.details["sandbox"]["report"]["missing"]["protected_files"].is_string());
}

#[tokio::test]
async fn the_data_folder_and_other_folders_cannot_be_read() {
    let mut world = World::new();
    let dir = world.dir.path().to_str().unwrap().to_owned();
    let script = format!(
        "cat {dir}/data/master.key; ls {dir}/data; ls {dir}; cat {dir}/outputs/*/*/*; ls /root; ls /home; ls /var"
    );
    let outcome = world.run(&world.script(&script)).await;
    assert!(has(&outcome, "files") && has(&outcome, "root"));
    assert_eq!(outcome.stdout, "commands\ntmp\n", "{}", outcome.stderr);
    assert_eq!(outcome.stderr.lines().count(), 5, "{}", outcome.stderr);
    let open = World::with_level(Level::Off);
    let key = open.dir.path().join("data/master.key");
    let outcome = open.run(&open.script(&format!("cat {}", key.display()))).await;
    assert_eq!(outcome.stdout, "do not tell", "without walls it is read");
    // A folder that is allowed does not open the protected one in it.
    world.options.readable = vec![world.dir.path().to_owned()];
    let script = format!("cat {dir}/data/master.key; ls {dir}/data; ls {dir}/commands");
    let outcome = world.run(&world.script(&script)).await;
    assert!(has(&outcome, "root"));
    assert_eq!(outcome.stdout, "script\n", "{}", outcome.stderr);
}

#[tokio::test]
async fn it_writes_where_it_may_and_nowhere_else() {
    let mut world = World::new();
    world.options.working_directory = Some(world.dir.path().join("work"));
    let dir = world.dir.path().to_str().unwrap().to_owned();
    let outside = world.dir.path().join("outside");
    fs::write(&outside, "").unwrap();
    open_to_all(&outside);
    let script = format!(
        "pwd; echo 1 > here; cat here; mkdir sub; mv here sub; echo 2 > /tmp/x; cat /tmp/x; ls /tmp; \
         echo 3 > {dir}/commands/new; echo 4 > /etc/x; echo 5 > {dir}/outside; echo 6 > /x; \
         cp /bin/true own; ./own; echo $?; echo 7 > /dev/null; echo done"
    );
    let outcome = world.run(&world.script(&script)).await;
    assert_eq!(outcome.stdout, format!("{dir}/work\n1\n2\nx\n126\ndone\n"), "{}", outcome.stderr);
    assert!(fs::exists(world.dir.path().join("work/sub/here")).unwrap());
    assert!(!fs::exists(world.dir.path().join("commands/new")).unwrap());
    assert_eq!(fs::read_to_string(outside).unwrap(), "");
}

#[tokio::test]
async fn it_sees_only_its_own_processes() {
    let world = World::new();
    let script = format!(
        "ls /proc | grep '^[0-9]' | wc -l; kill -0 {} && echo sent; cat /proc/{}/environ",
        std::process::id(),
        std::process::id()
    );
    let outcome = world.run(&world.script(&script)).await;
    assert!(has(&outcome, "processes"));
    let count: u32 = outcome.stdout.trim().parse().unwrap_or_else(|_| panic!("{}", outcome.stdout));
    assert!(count < 8, "{count} processes");
}

#[tokio::test]
async fn a_setuid_program_gains_nothing() {
    let world = World::new();
    if !nix::unistd::geteuid().is_root() {
        println!("NOT exercised: only root can make a setuid program of root's");
        return;
    }
    let id = world.dir.path().join("commands/setuid-id");
    fs::copy("/usr/bin/id", &id).unwrap();
    fs::set_permissions(&id, Permissions::from_mode(0o4755)).unwrap();
    let script = format!(
        "{} -u; grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status",
        id.display()
    );
    let outcome = world.run(&world.script(&script)).await;
    assert!(has(&outcome, "no_new_privileges") && has(&outcome, "user"));
    let zero = "0000000000000000";
    let expected = format!(
        "65534\nCapPrm:\t{zero}\nCapEff:\t{zero}\nCapBnd:\t{zero}\nNoNewPrivs:\t1\nSeccomp:\t2\n"
    );
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
}

#[tokio::test]
async fn dangerous_system_calls_are_denied() {
    let world = World::new();
    let script = "unshare -Ur true; echo $?; mount -t tmpfs x . ; echo $?; strace true; echo $?; \
                  python3 -c 'import os\ntry:\n os.unshare(0x10000000)\nexcept OSError as e:\n print(e.errno)'";
    let outcome = world.run(&world.script(script)).await;
    assert!(has(&outcome, "system_calls"));
    assert!(
        !outcome.stdout.lines().any(|line| line == "0"),
        "{} {}",
        outcome.stdout,
        outcome.stderr
    );
    assert!(outcome.stderr.contains("Operation not permitted"), "{}", outcome.stderr);
}

#[tokio::test]
async fn there_is_no_network_unless_it_is_allowed() {
    let mut world = World::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let port = server.local_addr().unwrap().port();
    let bash = format!("#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/{port} && echo connected\n");
    world.file("connect", &bash);
    let job = super::assignment("connect");
    let outcome = world.run(&job).await;
    assert!(has(&outcome, "network"));
    assert_eq!(outcome.stdout, "");
    assert!(server.accept().is_err(), "a packet got out");
    world.options.network = Network::Allow;
    let outcome = world.run(&super::assignment("connect")).await;
    assert_eq!(outcome.stdout, "connected\n", "{}", outcome.stderr);
    assert!(server.accept().is_ok());
}

#[tokio::test]
async fn a_network_is_no_way_to_the_hypervisor_or_the_kernel() {
    let mut world = World::new();
    world.options.network = Network::Allow;
    // Allowed families: Unix, both versions of the Internet protocol, and netlink routes.
    let program = "import errno, socket\n\
                   made = []\n\
                   for family in range(64):\n    \
                   for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW]:\n        \
                   try: socket.socket(family, kind); made.append(family)\n        \
                   except OSError as error: pass\n\
                   print(sorted(set(made)))\n\
                   for family in [16, 38, 40]:\n    \
                   try: socket.socket(family, socket.SOCK_DGRAM); print('made')\n    \
                   except OSError as error: print(errno.errorcode[error.errno])";
    let outcome = world.run(&world.python(program)).await;
    let mut lines = outcome.stdout.lines();
    let families = lines.next().unwrap_or_default();
    assert!(["[1, 2, 10, 16]", "[1, 2, 16]"].contains(&families), "{}", outcome.stderr);
    assert_eq!(lines.collect::<Vec<_>>(), ["made", "EPERM", "EPERM"], "{}", outcome.stderr);
}

#[tokio::test]
async fn a_fork_bomb_meets_its_limit_and_goes() {
    let mut world = World::new();
    world.options.limits.processes = 40;
    let script = "bomb() { bomb | bomb & }; bomb; bomb; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done";
    let outcome = world.run(&world.script(script)).await;
    if has(&outcome, "own_count") {
        assert!(outcome.stderr.contains("fork"), "{}", outcome.stderr);
    }
    // Others are not limited by it.
    let calm = world.run(&world.script("echo calm")).await;
    assert_eq!(calm.stdout, "calm\n", "{:?}", calm.result);
}

#[tokio::test]
async fn limits_end_what_takes_too_much() {
    let mut world = World::new();
    world.options.limits.cpu_seconds = 1;
    world.options.limits.memory_bytes = 64 << 20;
    world.options.limits.file_bytes = 1 << 20;
    world.options.limits.open_files = 20;
    let outcome = world.run(&world.script("while :; do :; done")).await;
    let error = outcome.result.error.unwrap();
    assert!(matches!(error, ErrorCode::Signal(24 | 9)), "{error}");
    let python = "#!/usr/bin/python3\nx = bytearray(256 << 20)\nprint(len(x))\n";
    world.file("memory", python);
    let outcome = world.run(&super::assignment("memory")).await;
    assert_eq!(outcome.result.error, Some(ErrorCode::Exit(1)), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("MemoryError"), "{}", outcome.stderr);
    let outcome =
        world.run(&world.script("head -c 3000000 /dev/zero > large; wc -c < large")).await;
    assert_eq!(outcome.stdout, "1048576\n", "{}", outcome.stderr);
    world.options.limits.scratch_bytes = 1 << 20;
    let outcome = world.run(&world.script("ulimit -n; head -c 900000 /dev/zero > /tmp/a; head -c 900000 /dev/zero > /tmp/b && echo fits")).await;
    assert_eq!(outcome.stdout, "20\n", "{}", outcome.stderr);
}

#[tokio::test]
async fn if_memory_runs_out_the_command_goes_first() {
    let world = World::new();
    let outcome = world.run(&world.script("cat /proc/self/oom_score_adj")).await;
    assert_eq!(outcome.stdout, "1000\n", "{}", outcome.stderr);
}

#[tokio::test]
async fn nothing_that_the_agent_has_open_is_handed_on() {
    let mut world = World::new();
    // As a library might open it: so that children inherit it.
    let key = fs::File::open(world.dir.path().join("data/master.key")).unwrap();
    fcntl(&key, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    // A program gets its three streams, and `ls` opens the folder that it lists.
    world.options.allow = vec!["/bin/ls".into()];
    for level in [Level::Required, Level::Off] {
        world.options.sandbox = level;
        let mut job = super::assignment("/bin/ls");
        super::action(&mut job).arguments = vec!["/proc/self/fd".into()];
        let outcome = world.run(&job).await;
        assert_eq!(outcome.stdout, "0\n1\n2\n3\n", "{}", outcome.stderr);
    }
}

#[tokio::test]
async fn a_gigabyte_of_output_is_cut_and_does_not_hold_others_up() {
    const GIGABYTE: u64 = 1 << 30;
    let world = World::new();
    let flood = world.script(&format!("yes 0123456789abcde | head -c {GIGABYTE}; echo end"));
    let calm = world.file("calm", "#!/bin/sh\necho calm\n");
    let calm = calm.to_str().unwrap();
    let before = memory();
    let (flooded, others) = tokio::join!(world.run(&flood), async {
        let mut ended = 0;
        for _ in 0..10 {
            let outcome = world.run(&super::assignment(calm)).await;
            ended += u32::from(outcome.stdout == "calm\n");
        }
        (ended, memory())
    });
    assert_eq!(others.0, 10);
    let grown = others.1.saturating_sub(before).max(memory().saturating_sub(before));
    assert!(grown < 128 << 20, "{grown} bytes more");
    println!("memory grew by {} MB", grown >> 20);
    assert_eq!(flooded.result.end, AttemptEnd::Completed, "{:?}", flooded.result);
    assert_eq!(flooded.details["output"]["stdout_bytes"], GIGABYTE + 4);
    let slice = world.outputs.read(flood.run, 1, 0, usize::MAX, None).unwrap();
    assert_eq!((slice.total, slice.is_final), (GIGABYTE + 4, true));
    assert!(slice.bytes.len() < 12 << 20 && slice.bytes.ends_with(b"abcde\nend\n"));
}

/// The resident memory of this process.
fn memory() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
