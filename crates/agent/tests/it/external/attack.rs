//! Attacks by a user that may write the command and tries to reach the machine beyond the sandbox.

use std::fs;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use agent::Network;
use agent::sandbox::Level;
use tempfile::TempDir;
use testbed::postgres::Server;

use super::{World, has, open_to_all};

/// Tries to connect to every address on its standard input, and prints the results. An address that
/// begins with `@` lies in no folder.
const CONNECT: &str = r#"
import errno, json, socket, sys
addresses = json.load(sys.stdin)["addresses"]
for address in addresses:
    try:
        client = socket.socket(socket.AF_UNIX)
    except OSError as error:
        print("socket", errno.errorcode[error.errno])
        continue
    try:
        client.connect(address.replace("@", "\0", 1))
        print("connected")
    except OSError as error:
        print("connect", errno.errorcode[error.errno])
one, two = socket.socketpair()
one.send(b"pair")
print(two.recv(9).decode())
"#;

/// A folder of the machine that all users may enter, deleted at the end.
fn folder(within: &str) -> TempDir {
    let folder = tempfile::Builder::new().prefix("punctual-attack-").tempdir_in(within).unwrap();
    open_to_all(folder.path());
    folder
}

/// A socket of the machine that all users may connect to.
fn listen(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    open_to_all(path);
    listener.set_nonblocking(true).unwrap();
    listener
}

#[tokio::test]
async fn no_socket_of_the_machine_can_be_reached() {
    let mut world = World::new();
    let is_root = nix::unistd::geteuid().is_root();
    // Where servers have their sockets: the data folder, temporary folders, and what root may make.
    let mut folders = vec![folder("/tmp"), folder("/var/tmp")];
    folders.extend(is_root.then(|| folder("/run")));
    let mut paths: Vec<PathBuf> = folders.iter().map(|one| one.path().join("server")).collect();
    paths.push(world.dir.path().join("data/server"));
    let mut listeners: Vec<UnixListener> = paths.iter().map(|path| listen(path)).collect();
    let name = format!("punctual-attack-{}", std::process::id());
    let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&abstract_address).unwrap();
    listener.set_nonblocking(true).unwrap();
    listeners.push(listener);
    let addresses: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let addresses: Vec<String> = addresses.into_iter().chain([format!("@{name}")]).collect();
    let count = addresses.len();

    for (level, network, expected) in [
        (Level::Required, Network::Deny, "socket EPERM"),
        (Level::Required, Network::Allow, "connect ENOENT"),
        (Level::Off, Network::Deny, "connected"),
    ] {
        world.options.sandbox = level;
        world.options.network = network;
        let mut job = world.python(CONNECT);
        job.parameters.insert("addresses".into(), addresses.clone().into());
        let outcome = world.run(&job).await;
        let mut lines: Vec<&str> = outcome.stdout.lines().collect();
        assert_eq!(lines.pop(), Some("pair"), "{}", outcome.stderr);
        assert_eq!(lines.len(), count, "{}", outcome.stdout);
        if network == Network::Allow {
            // A path outside of all folders is refused, not absent: by the rules, or by the filter.
            let last = lines.pop().unwrap();
            assert!(matches!(last, "connect EPERM" | "socket EPERM"), "{last}");
        }
        assert!(lines.iter().all(|line| *line == expected), "{level:?} {network:?}: {lines:?}");
        let accepted = listeners.iter().filter(|listener| listener.accept().is_ok()).count();
        assert_eq!(accepted, if level == Level::Off { count } else { 0 });
    }
}

/// Makes a pair of sockets for datagrams and sends to an address that is in no folder: a pair of
/// this kind is connected, but not for good.
const SEND: &str = r#"
import errno, json, socket, sys
address = json.load(sys.stdin)["address"].replace("@", "\0", 1)
for kind in [socket.SOCK_DGRAM, socket.SOCK_RAW]:
    try:
        one, two = socket.socketpair(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
    except OSError as error:
        print("pair", errno.errorcode[error.errno])
        continue
    try:
        one.sendto(b"hello", address)
        print("sent")
    except OSError as error:
        print("send", errno.errorcode[error.errno])
"#;

#[tokio::test]
async fn a_pair_of_sockets_leads_nowhere_else() {
    let mut world = World::new();
    let name = format!("punctual-datagram-{}", std::process::id());
    let receiver = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap());
    let receiver = receiver.unwrap();
    receiver.set_nonblocking(true).unwrap();
    for (level, network, expected) in [
        (Level::Required, Network::Deny, &["pair EPERM"][..]),
        // The rules for files, or the filter where the kernel's do not know such sockets.
        (Level::Required, Network::Allow, &["send EPERM", "pair EPERM"]),
        (Level::Off, Network::Deny, &["sent"]),
    ] {
        world.options.sandbox = level;
        world.options.network = network;
        let mut job = world.python(SEND);
        job.parameters.insert("address".into(), format!("@{name}").into());
        let outcome = world.run(&job).await;
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{}", outcome.stderr);
        assert!(
            lines.iter().all(|line| expected.contains(line)),
            "{level:?} {network:?}: {lines:?}"
        );
        let received = (0..2).filter(|_| receiver.recv(&mut [0; 9]).is_ok()).count();
        assert_eq!(received, if level == Level::Off { 2 } else { 0 });
    }
}

#[tokio::test]
async fn no_command_connects_to_the_database_of_the_store() {
    let server = Server::start();
    let url = server.url("postgres");
    let folder = url.split("host=").nth(1).unwrap();
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let psql = testbed::postgres::programs().join("psql");
    let mut world = World::new();
    world.options.readable = vec![psql.parent().unwrap().to_owned()];
    let script = format!("{} '{url}' -Atc 'CREATE ROLE attacker SUPERUSER'", psql.display());
    for network in [Network::Deny, Network::Allow] {
        world.options.network = network;
        let outcome = world.run(&world.script(&script)).await;
        assert_eq!(outcome.stdout, "", "{network:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("failed"), "{}", outcome.stderr);
    }
    // The server lets it do so where nothing stops it.
    world.options.sandbox = Level::Off;
    let outcome = world.run(&world.script(&script)).await;
    assert_eq!(outcome.stdout, "CREATE ROLE\n", "{}", outcome.stderr);
}

#[tokio::test]
async fn nothing_of_the_machine_but_what_is_needed_is_there() {
    let mut world = World::new();
    let temporary = folder("/tmp");
    fs::write(temporary.path().join("note"), "do not tell").unwrap();
    open_to_all(&temporary.path().join("note"));
    let program = r#"
import json, os, sys
for path in json.load(sys.stdin)["paths"]:
    try:
        os.stat(path)
        print(path)
    except FileNotFoundError:
        pass
print(*sorted(os.listdir("/")))
print(*sorted(os.listdir("/dev")))
print(*sorted(os.listdir("/tmp")))
"#;
    let data = world.dir.path().join("data");
    let outputs = world.dir.path().join("outputs");
    let note = temporary.path().join("note");
    let mut absent: Vec<String> = [
        "/run", "/var/run", "/var/lib", "/var/log", "/sys", "/root", "/home", "/boot", "/mnt",
        "/srv",
    ]
    .map(str::to_owned)
    .into();
    absent.extend(
        ["/etc/shadow", "/etc/ssh", "/etc/sudoers", "/dev/tty", "/dev/kmsg", "/dev/vda"]
            .map(str::to_owned),
    );
    absent.extend([&data, &outputs, &note].map(|path| path.display().to_string()));
    for network in [Network::Deny, Network::Allow] {
        world.options.network = network;
        let mut job = world.python(program);
        job.parameters.insert("paths".into(), absent.clone().into());
        let outcome = world.run(&job).await;
        assert!(has(&outcome, "root"));
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        let [root, devices, scratch] = lines[..] else {
            panic!("{} {}", outcome.stdout, outcome.stderr);
        };
        let allowed = "bin dev etc lib lib32 lib64 libx32 nix proc sbin tmp usr var"
            .split(' ')
            .collect::<Vec<_>>();
        assert!(root.split(' ').all(|name| allowed.contains(&name)), "{root}");
        assert_eq!(devices, "fd full null random shm stderr stdin stdout urandom zero");
        assert_eq!(scratch, "");
    }
}

#[tokio::test]
async fn names_are_resolved_with_files_only() {
    let mut world = World::new();
    let program = "import os, pwd, socket; print(pwd.getpwuid(os.getuid()).pw_name); \
                   print(os.path.exists('/etc/resolv.conf')); \
                   print(socket.gethostbyname('localhost'))";
    let has_resolver = fs::exists("/etc/resolv.conf").unwrap();
    world.options.network = Network::Allow;
    let outcome = world.run(&world.python(program)).await;
    let name = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let name = if name == "root" { "nobody".to_owned() } else { name };
    let resolver = if has_resolver { "True" } else { "False" };
    assert_eq!(outcome.stdout, format!("{name}\n{resolver}\n127.0.0.1\n"), "{}", outcome.stderr);
}

#[tokio::test]
async fn nothing_that_it_wrote_is_executed() {
    let mut world = World::new();
    world.options.writable = vec![world.dir.path().join("work")];
    let program = r##"
import ctypes, errno, glob, os, shutil, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, action):
    try:
        print(name, action())
    except OSError as error:
        print(name, errno.errorcode[error.errno])
loader = (glob.glob("/lib64/ld-linux*") + glob.glob("/lib/ld-linux*"))[0]
for folder in [os.environ["HOME"], sys.argv[1]]:
    own = folder + "/own"
    shutil.copy("/bin/true", own)
    os.chmod(own, 0o755)
    attempt("own", lambda: subprocess.run([own]).returncode)
    # The loader says so itself, and ends with 127.
    attempt("loader", lambda: subprocess.run([loader, own], stderr=subprocess.DEVNULL).returncode)
def memory():
    descriptor = os.memfd_create("own")
    os.write(descriptor, open("/bin/true", "rb").read())
    return subprocess.run([f"/proc/self/fd/{descriptor}"], pass_fds=[descriptor]).returncode
attempt("memory", memory)
attempt("stdin", lambda: os.pwrite(0, b'#!/bin/true\n', 0))
"##;
    let mut job = world.python(program);
    super::action(&mut job).arguments = vec![world.dir.path().join("work").display().to_string()];
    let outcome = world.run(&job).await;
    let expected = format!("{}memory ENOSYS\nstdin EPERM\n", "own EACCES\nloader 127\n".repeat(2));
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
    let mut open = World::with_level(Level::Off);
    open.options.writable = world.options.writable.clone();
    let mut job = open.python(program);
    super::action(&mut job).arguments = vec![world.dir.path().join("work").display().to_string()];
    let outcome = open.run(&job).await;
    let expected = format!("{}memory 0\nstdin EPERM\n", "own 0\nloader 0\n".repeat(2));
    assert_eq!(outcome.stdout, expected, "without a sandbox it is executed: {}", outcome.stderr);
}

#[tokio::test]
async fn no_file_gets_a_setuid_bit() {
    let mut world = World::new();
    world.options.writable = vec![world.dir.path().join("work")];
    let program = r#"
import errno, os, stat, sys
def attempt(name, action):
    try:
        action()
        print(name, "done")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
for folder in [".", sys.argv[1]]:
    path = folder + "/file"
    with open(path, "w") as file:
        for mode in [0o4755, 0o2755, 0o755]:
            attempt("chmod", lambda: os.chmod(path, mode))
            attempt("fchmod", lambda: os.fchmod(file.fileno(), mode))
    attempt("open", lambda: os.close(os.open(path + "2", os.O_CREAT | os.O_WRONLY, 0o4755)))
    attempt("temporary", lambda: os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o4755)))
    attempt("mknod", lambda: os.mknod(path + "3", stat.S_IFREG | 0o4755))
    attempt("plain", lambda: os.close(os.open(path + "4", os.O_CREAT | os.O_WRONLY, 0o755)))
"#;
    let mut job = world.python(program);
    super::action(&mut job).arguments = vec![world.dir.path().join("work").display().to_string()];
    let outcome = world.run(&job).await;
    let refused = "chmod EPERM\nfchmod EPERM\n";
    let one = format!(
        "{refused}{refused}chmod done\nfchmod done\nopen EPERM\ntemporary EPERM\nmknod EPERM\nplain done\n"
    );
    assert_eq!(outcome.stdout, one.repeat(2), "{}", outcome.stderr);
    for entry in fs::read_dir(world.dir.path().join("work")).unwrap() {
        let mode = std::os::unix::fs::MetadataExt::mode(&entry.unwrap().metadata().unwrap());
        assert_eq!(mode & 0o6000, 0);
    }
}

#[tokio::test]
async fn what_it_may_write_is_not_what_it_may_start() {
    let mut world = World::new();
    // Commands in a folder that other commands may write, as some administrators arrange it.
    let work = world.dir.path().join("work");
    let bin = work.join("bin");
    fs::create_dir(&bin).unwrap();
    open_to_all(&bin);
    world.options.writable = vec![work.clone()];
    world.options.allow.push(bin.clone());
    let script = format!(
        "echo x > {}/x; echo y > {}/y; ls {}",
        bin.display(),
        work.display(),
        work.display()
    );
    let outcome = world.run(&world.script(&script)).await;
    assert_eq!(outcome.stdout, "bin\ny\n", "{}", outcome.stderr);
    assert_eq!(fs::metadata(bin.join("x")).unwrap_err().kind(), ErrorKind::NotFound);
}
