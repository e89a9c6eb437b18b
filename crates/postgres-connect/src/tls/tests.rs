//! Certificate and key files of an address.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::{Address, Manner};

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let made = rcgen::generate_simple_self_signed(["db.test".to_owned()]).unwrap();
    let other = rcgen::KeyPair::generate().unwrap();
    write("cert.pem", &made.cert.pem(), 0o644);
    write("key.pem", &made.signing_key.serialize_pem(), 0o600);
    write("open.pem", &made.signing_key.serialize_pem(), 0o644);
    write("other.pem", &other.serialize_pem(), 0o600);
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    write("locked.pem", locked, 0o600);
    write("empty.pem", "", 0o600);
    write("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0o644);
    for (parameters, parameter, said) in [
        ("sslrootcert=ROOT/cert.pem&sslcert=ROOT/cert.pem&sslkey=ROOT/key.pem", "", ""),
        ("sslrootcert=ROOT/none.pem", "sslrootcert", "none.pem cannot be read"),
        ("sslrootcert=ROOT/empty.pem", "sslrootcert", "empty.pem contains no PEM certificate"),
        ("sslrootcert=ROOT/key.pem", "sslrootcert", "key.pem contains no PEM certificate"),
        ("sslrootcert=ROOT/broken.pem", "sslrootcert", "broken.pem"),
        ("sslcert=ROOT/none.pem&sslkey=ROOT/key.pem", "sslcert", "none.pem cannot be read"),
        ("sslcert=ROOT/cert.pem&sslkey=ROOT/none.pem", "sslkey", "none.pem cannot be read"),
        ("sslcert=ROOT/cert.pem&sslkey=ROOT/open.pem", "sslkey", "chmod 600"),
        ("sslcert=ROOT/cert.pem&sslkey=ROOT/other.pem", "sslkey", "is not the key of"),
        ("sslcert=ROOT/cert.pem&sslkey=ROOT/locked.pem", "sslkey", "without a password"),
    ] {
        let root = folder.path().to_str().unwrap();
        let parameters = parameters.replace("ROOT", root);
        let url = format!("postgres://u@db.test/d?sslmode=verify-full&{parameters}");
        match Address::parse(&url, Manner::Libpq).unwrap().tls() {
            Ok(_) => assert_eq!(parameter, "", "{parameters}"),
            Err(wrong) => {
                assert_eq!(wrong.parameter, parameter, "{parameters}: {wrong}");
                assert!(wrong.problem.contains(said), "{parameters}: {wrong}");
            }
        }
    }
}
