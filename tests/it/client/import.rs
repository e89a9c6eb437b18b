//! Crontabs become jobs.

use super::bench::Server;

const CRONTAB: &str = "\
# Saves everything
MAILTO=ops@example.com
CRON_TZ=Europe/Berlin
0 2 * * * /opt/backup.sh --all
@reboot /opt/start
";

#[test]
fn a_crontab_is_printed_or_applied() {
    let server = Server::start();
    let printed = server.feed(&["import", "crontab", "-", "--tz", "UTC"], CRONTAB);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.stdout.contains("cron_expression: 0 2 * * *\n"), "{printed:?}");
    for part in [
        "line 2: MAILTO=ops@example.com\n",
        "line 4: job backup: 0 2 * * * Europe/Berlin\n",
        "line 5: not imported: @reboot is about this machine's start",
        "error: one line was not imported\n",
    ] {
        assert!(printed.stderr.contains(part), "{part} {printed:?}");
    }

    let good = CRONTAB.replace("@reboot /opt/start\n", "");
    let documents = server.feed(&["import", "crontab", "-", "--tz", "UTC"], &good);
    assert_eq!(documents.code, Some(0), "{documents:?}");
    let args = ["import", "crontab", "-", "--tz", "UTC", "--apply"];
    let applied = server.feed(&args, &good);
    assert_eq!((applied.code, applied.stdout.as_str()), (Some(0), "created    backup\n"));
    // The documents say the same as the import did.
    let same = server.feed(&["apply", "-f", "-"], &documents.stdout);
    assert_eq!(same.stdout, "unchanged  backup\n", "{same:?}");
    let job = server.json(&["job", "show", "backup"]);
    assert_eq!(job["payload"]["arguments"][1], "/opt/backup.sh --all");
    assert_eq!(job["overlap"], "ALLOW");
}
