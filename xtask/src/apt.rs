//! Installing with Debian's `apt-get`, as root.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::step::run_command;
use crate::workspace::{find, path_folders};

const CLUSTER_CONF: &str = "/etc/postgresql-common/createcluster.conf";

/// The command to install it manually.
pub const POSTGRES_ADVICE: &str = "    apt-get install postgresql-common
    echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf
    apt-get install postgresql
  as root on Debian and Ubuntu (the second line keeps the third from starting a server);
  elsewhere your system's package of the server. Set PG_BIN to the folder that holds
  `initdb` if that folder is not on the PATH.
";

/// Whether we are root on a system that has `apt-get`.
pub fn is_usable() -> bool {
    let user = Command::new("id").arg("-u").output();
    let root = user.is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    root && find("apt-get", path_folders()).is_some()
}

/// Installs the PostgreSQL server's programs without the server that Debian would start.
///
/// Tests start servers of their own; a default one on port 5432 would surprise the machine's
/// owner. Debian reads its setting from a file of `postgresql-common`, so that comes first.
pub fn install_postgres() -> Result<()> {
    run_command(&mut apt_get(&["update"]))?;
    install("postgresql-common")?;
    let conf = fs::read_to_string(CLUSTER_CONF).with_context(|| CLUSTER_CONF)?;
    if let Some(conf) = without_main_cluster(&conf) {
        fs::write(CLUSTER_CONF, conf).with_context(|| CLUSTER_CONF)?;
    }
    install("postgresql")
}

/// Installs packages without special configuration.
pub fn install_plain(packages: &[&str]) -> Result<()> {
    run_command(&mut apt_get(&["update"]))?;
    packages.iter().try_for_each(|package| install(package))
}

fn install(package: &str) -> Result<()> {
    run_command(&mut apt_get(&["install", "--yes", "--no-install-recommends", package]))
}

/// `apt-get` without questions and without progress bars; errors are shown.
fn apt_get(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(["-qq", "-o", "Dpkg::Use-Pty=0"]).args(args);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// The configuration with the main cluster turned off; `None` when the owner has decided already.
fn without_main_cluster(conf: &str) -> Option<String> {
    let decided = conf.lines().any(|line| line.trim_start().starts_with("create_main_cluster"));
    (!decided).then(|| format!("{}\ncreate_main_cluster = false\n", conf.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_cluster_is_turned_off_once() {
        let shipped = "# Default values\n#create_main_cluster = true\n";
        let ours = without_main_cluster(shipped).unwrap();
        assert_eq!(
            ours,
            "# Default values\n#create_main_cluster = true\ncreate_main_cluster = false\n"
        );
        assert_eq!(without_main_cluster(&ours), None);
    }

    #[test]
    fn owners_decision_stays() {
        assert_eq!(without_main_cluster("create_main_cluster = true\n"), None);
    }
}
