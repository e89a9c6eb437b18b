use super::*;

/// Each line that has a verdict, one after the other.
fn read_as(system: bool, text: &str) -> Vec<String> {
    let reading = CrontabDefaults { system, zone: "Europe/Berlin", prefix: "" };
    let told = |line: CrontabLine| {
        let verdict = match line.verdict {
            LineMeaning::Job(job) => format!(
                "{} | {} {} | {}",
                job["name"].as_str().unwrap(),
                job["cron_expression"].as_str().unwrap(),
                job["timezone"].as_str().unwrap(),
                job["payload"]["arguments"][1].as_str().unwrap()
            ),
            LineMeaning::Setting(setting) => setting,
            LineMeaning::Refused(why) => format!("! {why}"),
        };
        format!("{} {verdict}", line.number)
    };
    read(text, &reading, &Zones::bundled()).into_iter().map(told).collect()
}

#[test]
fn a_crontab_of_a_user() {
    let text = "\
# m h dom mon dow command

SHELL = '/bin/bash'
MAILTO=\"\"
0 2 * * *   /opt/backup.sh   --all
CRON_TZ=America/New_York
*/5 9-17 * * mon-fri /opt/poll FOO=1
@daily date +\\%F
\t 30 4 1 * * /opt/backup.sh monthly
";
    assert_eq!(
        read_as(false, text),
        [
            "3 SHELL=/bin/bash",
            "4 MAILTO=",
            "5 backup | 0 2 * * * Europe/Berlin | /opt/backup.sh   --all",
            "6 CRON_TZ=America/New_York",
            "7 poll | */5 9-17 * * mon-fri America/New_York | /opt/poll FOO=1",
            "8 date | @daily America/New_York | date +%F",
            "9 backup-2 | 30 4 1 * * America/New_York | /opt/backup.sh monthly",
        ]
    );
}

#[test]
fn a_crontab_of_the_system_names_users() {
    assert_eq!(
        read_as(true, "17 *\t* * *\troot    cd / && run-parts --report /etc/cron.hourly\n"),
        ["1 run-parts | 17 * * * * Europe/Berlin | cd / && run-parts --report /etc/cron.hourly"]
    );
    let why = "1 ! a line of a system crontab names a user and then a command";
    assert_eq!(read_as(true, "17 * * * * date"), [why]);
}

#[test]
fn what_cannot_be_imported_is_explained() {
    for (line, part) in [
        ("@reboot /opt/start", "init system"),
        ("0 0~6 * * * date", "~"),
        ("61 * * * * date", "minute: 61 is out of range"),
        ("0 0 30 2 * date", "No match found"),
        ("* * * *", "five fields"),
        ("* * * * * ", "the command is missing"),
        ("@fortnightly date", "@fortnightly"),
        ("CRON_TZ=Nowhere/Else", "CRON_TZ"),
        ("RANDOM_DELAY=much", "RANDOM_DELAY"),
        ("\u{1b}[2J", "five fields"),
    ] {
        let told = read_as(false, line);
        assert!(told[0].starts_with("1 ! ") && told[0].contains(part), "{line}: {told:?}");
    }
}

#[test]
fn a_document_is_complete() {
    let text = "\
RANDOM_DELAY=2
TZ=Asia/Tokyo
PATH=/opt/bin
# Writes to
# all readers
5 4 * * sun mail -s hi all%Dear all,%bye
";
    let reading = CrontabDefaults { system: false, zone: "UTC", prefix: "old-" };
    let lines = read(text, &reading, &Zones::bundled());
    let LineMeaning::Job(job) = &lines[3].verdict else { panic!("{lines:?}") };
    assert_eq!(
        *job,
        json!({
            "name": "old-mail",
            "description": "Writes to all readers",
            "job_type": "CRON",
            "cron_expression": "5 4 * * sun",
            "timezone": "UTC",
            "payload": {
                "type": "EXTERNAL",
                "command": "/bin/sh",
                "arguments": [
                    "-c",
                    "export PATH='/opt/bin'\nexport TZ='Asia/Tokyo'\n\
                     { mail -s hi all\n} <<'END_OF_INPUT'\nDear all,\nbye\nEND_OF_INPUT\n",
                ],
            },
            "overlap": "ALLOW",
            "retry_config": {"max_attempts": 1},
            "catch_up": "NONE",
            "jitter_seconds": 120,
            "tags": ["crontab"],
        })
    );
    assert_eq!(lines[3].notes.len(), 1);
    assert!(lines[1].notes[0].contains("CRON_TZ"));
}

#[test]
fn variables_reach_the_command_whatever_the_shell() {
    let arguments = |shell: &str| {
        let text = format!("SHELL={shell}\nNAME=\"it's\"\n0 0 * * * date\n");
        let reading = CrontabDefaults { system: false, zone: "UTC", prefix: "" };
        let mut lines = read(&text, &reading, &Zones::bundled());
        match lines.pop().unwrap().verdict {
            LineMeaning::Job(job) => job["payload"].clone(),
            other => panic!("{other:?}"),
        }
    };
    let script = "export NAME='it'\\''s'\ndate";
    assert_eq!(arguments("/bin/bash")["arguments"], json!(["-c", script]));
    let fish = arguments("/usr/bin/fish");
    assert_eq!(fish["arguments"], json!(["-c", "date"]));
    assert_eq!(fish["environment"], json!({"NAME": "it's"}));
}
