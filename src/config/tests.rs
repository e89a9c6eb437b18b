use super::*;

fn load(
    file: Option<&str>,
    environment: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("punctual.toml");
    std::fs::write(&path, file.unwrap_or_default()).unwrap();
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    Config::load(Sources {
        flags: flags.iter().map(|(name, value)| (*name, value.to_string())).collect(),
        file: Some(path),
        environment: environment.iter().map(owned).collect(),
    })
    .map_err(|error| error.to_string())
}

#[test]
fn the_nearest_source_wins_and_is_named() {
    let file = "http = \"1.1.1.1:1\"\n[engine]\nlease = \"20s\"\nretention_days = 7\n";
    let config = load(
        Some(file),
        &[("PUNCTUAL_ENGINE__LEASE", "30s"), ("PUNCTUAL_HTTP", "2.2.2.2:2"), ("HOME", "/")],
        &[("http", "3.3.3.3:3")],
    );
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let shown = |name: &str| {
        let (value, origin) = &config.values[name];
        format!("{value} from {origin}")
    };
    assert_eq!(shown("http"), "3.3.3.3:3 from --http");
    assert_eq!(shown("engine.lease"), "30s from $PUNCTUAL_ENGINE__LEASE");
    assert!(shown("engine.retention_days").starts_with("7 from /"));
    assert_eq!(shown("data"), "./punctual-data from default");
    assert_eq!(config.duration("engine.lease").ok().map(|lease| lease.as_secs()), Some(30));
}

#[test]
fn unknown_names_are_refused_with_the_nearest_known_one() {
    for (file, environment, words) in [
        ("htpp = \"x\"", None, ["htpp", "did you mean http?"]),
        ("[engine]\nleese = \"1s\"", None, ["engine.leese", "did you mean engine.lease?"]),
        ("", Some("PUNCTUAL_STOR"), ["PUNCTUAL_STOR", "did you mean PUNCTUAL_STORE?"]),
        ("", Some("PUNCTUAL_HTTP_FILE"), ["PUNCTUAL_HTTP_FILE", "PUNCTUAL_HTTP"]),
        ("http = [1]", None, ["http", "plain value"]),
        ("http = ", None, ["punctual.toml", "string"]),
        ("[databases]\n\"a b\" = \"x\"", None, ["databases.a b", "there is no setting"]),
    ] {
        let environment: Vec<(&str, &str)> = environment.iter().map(|name| (*name, "x")).collect();
        let error = load(Some(file), &environment, &[]).err().unwrap_or_default();
        assert!(words.iter().all(|word| error.contains(word)), "{file}: {error}");
    }
}

#[test]
fn a_secret_comes_from_a_file_and_is_not_shown_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::write(&path, "postgres://secret@host\n").unwrap();
    let path = path.to_string_lossy().into_owned();
    let config = load(None, &[("PUNCTUAL_STORE_FILE", &path)], &[]);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.text("store"), "postgres://secret@host");
    assert!(!config.wrong("store", "better").to_string().contains("secret"));
}

#[test]
fn the_documented_table_is_the_one_in_force() {
    let mut table = String::from("| setting | default | variable | meaning |\n|---|---|---|---|\n");
    for key in KEYS {
        let default =
            if key.default.is_empty() { "–".into() } else { format!("`{}`", key.default) };
        let variable = variable_of(key.name);
        table.push_str(&format!(
            "| `{}` | {default} | `{variable}` | {} |\n",
            key.name, key.meaning
        ));
    }
    for (name, meaning) in TABLES {
        let variable = variable_of(name);
        table.push_str(&format!("| `{name}.NAME` | – | `{variable}__NAME` | {meaning} |\n"));
    }
    let page = include_str!("../../docs/configuration.md");
    assert!(page.contains(&table), "docs/configuration.md must contain:\n\n{table}");
}

#[test]
fn databases_have_names_of_their_own() {
    let file = "[databases]\nsales = \"postgres://u@h/d\"\nlocal = \"sqlite:/a.db\"\n";
    let variables = [("PUNCTUAL_DATABASES__SALES", "postgres://v@h/d")];
    let config = load(Some(file), &variables, &[("jobs.database", "sales")]);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let all: Vec<(&str, &str)> = config.named("databases").collect();
    assert_eq!(all, [("local", "sqlite:/a.db"), ("sales", "postgres://v@h/d")]);
    assert!(crate::jobs::options(&config, Path::new("data")).is_ok());
    for (file, words) in [
        ("[databases]\na = \"mysql://x\"", "databases.a"),
        ("[jobs]\ndatabase = \"b\"", "jobs.database"),
        ("[external]\nenabled = true", "external.allow"),
        ("[external]\nsandbox = \"some\"", "required, best-effort or off"),
        ("[external]\nmemory_bytes = 0", "external.memory_bytes"),
        ("[external]\nprocesses = \"many\"", "external.processes"),
        ("[external]\nuser = \"no such user\"", "external.user"),
        ("[external]\nuser = \"1:x\"", "UID:GID"),
        ("[external]\nenvironment = [\"PATH\"]", "NAME=value"),
        ("[backup.targets]\na = \"ftp://bucket/x\"", "backup.targets.a: begins with ftp, not s3"),
        ("[backup.targets]\na = \"backups\"", "must be the whole path of a folder"),
    ] {
        let config = load(Some(file), &[], &[]).unwrap_or_else(|error| panic!("{error}"));
        let error = crate::jobs::options(&config, Path::new("data")).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(words), "{file}: {error}");
    }
}

#[test]
fn commands_get_what_the_settings_say() {
    let file = "[external]\nuser = \"7:8\"\nprocesses = 9\nenvironment = [\"A=b=c\", \"D=\"]\n\
                [backup.targets]\nnightly = \"/mnt/backups\"\n";
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "sqlite").unwrap();
    let password = password.to_str().unwrap();
    let environment = [("PUNCTUAL_STORE_FILE", password), ("PUNCTUAL_TLS_KEY", "/etc/tls.key")];
    let config = load(Some(file), &environment, &[]).unwrap_or_else(|error| panic!("{error}"));
    let options =
        crate::jobs::options(&config, Path::new("/data")).unwrap_or_else(|e| panic!("{e}"));
    let external = options.external;
    assert_eq!(external.user.map(|user| (user.uid, user.gid)), Some((7, 8)));
    assert_eq!(external.limits.processes, 9);
    assert_eq!(external.limits.open_files, agent::sandbox::Limits::default().open_files);
    let variables: Vec<(&str, &str)> =
        external.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(variables, [("A", "b=c"), ("D", "")]);
    // Whatever may hold a secret of the server.
    let settings = config.files().find(|path| path.ends_with("punctual.toml")).unwrap();
    let protected: Vec<&Path> = external.protected.iter().map(PathBuf::as_path).collect();
    for path in ["/data", "/mnt/backups", password, "/etc/tls.key"].map(Path::new) {
        assert!(protected.contains(&path), "{path:?}: {protected:?}");
    }
    assert!(protected.contains(&settings) && protected.len() == 5, "{protected:?}");
}

/// The defaults in the table match those of the crates.
#[test]
fn defaults_are_those_of_the_parts() {
    let config = load(None, &[], &[]).unwrap_or_else(|error| panic!("{error}"));
    let options =
        crate::jobs::options(&config, Path::new("/data")).unwrap_or_else(|e| panic!("{e}"));
    let (external, parts) = (options.external, agent::ExternalOptions::default());
    assert_eq!(external.limits, parts.limits);
    assert_eq!(external.environment, parts.environment);
    assert_eq!(external.user, parts.user);
    let limits = crate::jobs::output_limits(&config).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(limits, agent::output::Limits::default());
}

#[test]
fn every_default_fits() {
    let config = load(None, &[], &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(crate::cmd::serve::ServerPlan::from_config(&config).is_ok());
}
