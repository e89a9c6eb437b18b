use super::*;
use crate::data::DataFolder;

/// Resolves the server with these arguments and variables, as `url key`.
fn found(args: ServerArgs, variables: &[(&str, &str)]) -> String {
    let variable = |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    match find(&args, &variable) {
        Ok(place) => format!("{} {}", place.url, place.token.as_deref().unwrap_or("-")),
        Err(Failure::Refused(_)) => "refused".to_owned(),
        Err(Failure::Ended(exit, _)) => format!("{exit:?}"),
        Err(_) => "other".to_owned(),
    }
}

/// A data folder that a running server holds and has written its address to.
fn running(data: &Path, url: &str) -> DataFolder {
    let folder = DataFolder::open(data).unwrap_or_else(|error| panic!("{error}"));
    fs::write(data.join(URL_FILE), format!("{url}\n")).unwrap();
    folder
}

fn url(text: &str) -> ServerArgs {
    ServerArgs { server: Some(text.to_owned()), ..ServerArgs::default() }
}

#[test]
fn flags_come_before_variables_and_those_before_files() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join(".config/punctual");
    fs::create_dir_all(&config).unwrap();
    fs::write(
        config.join("config.toml"),
        "current = 'far'\n[contexts.far]\nurl = 'https://far.example/'\ntoken = 'far-key'\n\
         [contexts.near]\nurl = 'http://127.0.0.1:1/'\n",
    )
    .unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join(KEY_FILE), "data-key\n").unwrap();
    let _server = running(&data, "http://localhost:2");
    let home = ("HOME", home.path().to_str().unwrap());
    let data = ("PUNCTUAL_DATA", data.to_str().unwrap());
    let none = ServerArgs::default;

    assert_eq!(found(none(), &[home]), "https://far.example/ far-key");
    assert_eq!(found(none(), &[home, data]), "http://localhost:2/ data-key");
    let named = ServerArgs { context: Some("far".to_owned()), ..none() };
    assert_eq!(found(named.clone(), &[home, data]), "https://far.example/ far-key");
    let missing = ServerArgs { context: Some("further".to_owned()), ..none() };
    assert_eq!(found(missing, &[home]), "refused");
    assert_eq!(
        found(none(), &[home, data, ("PUNCTUAL_SERVER", "http://localhost:2")]),
        "http://localhost:2/ data-key"
    );
    assert_eq!(
        found(url("http://localhost:2/"), &[home, data, ("PUNCTUAL_SERVER", "http://[::1]:3")]),
        "http://localhost:2/ data-key"
    );
    let token = ("PUNCTUAL_TOKEN", "t");
    assert_eq!(found(none(), &[home, token]), "https://far.example/ t");

    // No key travels to a server that it does not belong to, on this machine either.
    for other in ["http://localhost:3", "http://127.0.0.1:2", "https://localhost:2"] {
        let expected = format!("{} -", Url::parse(other).unwrap());
        assert_eq!(found(url(other), &[home, data]), expected);
    }
    assert_eq!(
        found(url("http://elsewhere.example"), &[home, data]),
        "http://elsewhere.example/ -"
    );
    let diverted = ServerArgs { server: Some("http://elsewhere.example".to_owned()), ..named };
    assert_eq!(found(diverted, &[home, data]), "http://elsewhere.example/ -");
}

#[test]
fn a_folder_without_an_address_gives_its_key_to_no_server() {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join(KEY_FILE), "data-key\n").unwrap();
    let data = ("PUNCTUAL_DATA", data.path().to_str().unwrap());
    assert_eq!(found(ServerArgs::default(), &[data]), "http://127.0.0.1:8630/ -");
    assert_eq!(found(url("http://127.0.0.1:8630"), &[data]), "http://127.0.0.1:8630/ -");
}

#[test]
fn a_running_server_says_where_it_listens() {
    let data = tempfile::tempdir().unwrap();
    let _server = running(data.path(), "http://127.0.0.1:4567");
    let data = ("PUNCTUAL_DATA", data.path().to_str().unwrap());
    assert_eq!(found(ServerArgs::default(), &[data]), "http://127.0.0.1:4567/ -");
}

#[test]
fn the_address_of_a_server_that_has_ended_gets_no_key() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(KEY_FILE), "data-key\n").unwrap();
    let data = ("PUNCTUAL_DATA", folder.path().to_str().unwrap());
    let address = "http://127.0.0.1:4567";
    let server = running(folder.path(), address);
    for args in [ServerArgs::default(), url(address)] {
        assert_eq!(found(args, &[data]), "http://127.0.0.1:4567/ data-key");
    }
    drop(server);
    for args in [ServerArgs::default(), url(address)] {
        assert_eq!(found(args, &[data]), "http://127.0.0.1:4567/ -");
    }
    // The next one has not said yet where it listens.
    let _next = DataFolder::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found(ServerArgs::default(), &[data]), "http://127.0.0.1:8630/ -");
}

#[test]
fn addresses_and_key_files_are_checked() {
    for wrong in ["", "127.0.0.1:8630", "ftp://x", "http://", "http://a:b@host"] {
        assert_eq!(found(url(wrong), &[]), "refused", "{wrong}");
    }
    assert_eq!(found(ServerArgs::default(), &[("PUNCTUAL_TOKEN_FILE", "/nowhere/key")]), "Auth");
}
