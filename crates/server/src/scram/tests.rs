use super::*;

/// The example of RFC 7677: user `user`, password `pencil`.
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

fn pencil() -> (Verifier, Salt) {
    let salt: Salt = STANDARD.decode(SALT).unwrap().try_into().unwrap();
    (verifier("pencil", salt, 4096).unwrap(), salt)
}

#[test]
fn the_example_of_the_rfc_proves_itself() {
    let (kept, _) = pencil();
    // The nonce of the example is not ours to draw, so the middle of the exchange is written down.
    let exchange = Exchange {
        said: format!(
            "n=user,r=rOprNGfwEbeRWgbNEkqO,\
             r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s={SALT},i=4096"
        ),
        nonce: "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned(),
        binding: "biws".to_owned(),
    };
    let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let proof = exchange.proof(last.as_bytes()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let signature = proof.of(&kept).unwrap();
    assert_eq!(signature, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn the_keys_of_the_example_are_those_of_the_rfc() {
    let (kept, salt) = pencil();
    assert_eq!(STANDARD.encode(kept.stored_key), "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=");
    assert_eq!(STANDARD.encode(kept.server_key), "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=");
    assert_ne!(verifier("pencil", salt, 4097), Some(kept.clone()));
    assert_ne!(verifier("pencils", salt, 4096), Some(kept));
}

/// RFC 4013: a soft hyphen means nothing, and what may not be in a password is taken as it is.
#[test]
fn password_is_prepared_before_it_is_hashed() {
    let (_, salt) = pencil();
    let kept = |secret: &str| verifier(secret, salt, 2).unwrap();
    assert_eq!(kept("pen\u{ad}cil"), kept("pencil"));
    assert_ne!(kept("pencil\u{7}"), kept("pencil"));
}

/// A client that does its part of an exchange.
fn last_message(first: &str, reply: &str, secret: &str) -> String {
    let field = |name: &str| {
        let part = reply.split(',').find_map(|part| part.strip_prefix(name));
        part.unwrap_or_else(|| panic!("no {name} in {reply}")).to_owned()
    };
    let (nonce, salt, rounds) = (field("r="), field("s="), field("i="));
    let salt = STANDARD.decode(salt).unwrap();
    let salted = salted_password(secret, &salt, rounds.parse().unwrap()).unwrap();
    let client_key = hmac(&salted, b"Client Key");
    let stored_key = Sha256::digest(client_key);
    let (flag, bare) = first.split_once(",,").unwrap();
    let said = format!("c={},r={nonce}", STANDARD.encode(format!("{flag},,")));
    let signature = hmac(&stored_key, format!("{bare},{reply},{said}").as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
    format!("{said},p={}", STANDARD.encode(proof))
}

#[test]
fn only_who_knows_a_secret_proves_it() {
    let (kept, salt) = pencil();
    for first in ["n,,n=,r=abc", "y,,n=somebody,r=abc"] {
        let begin = Exchange::begin(first.as_bytes(), salt, 4096, 7, Binding::None);
        let (exchange, reply) = begin.unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let proves = |secret: &str| {
            let last = last_message(first, &reply, secret);
            let proof = exchange.proof(last.as_bytes()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
            proof.of(&kept).is_some()
        };
        assert!(proves("pencil"));
        assert!(!proves("pen"));
        assert!(!proves(""));
    }
}

#[test]
fn a_message_that_is_none_is_refused() {
    let (_, salt) = pencil();
    let long = format!("n,,n=,r={}", "a".repeat(NONCE_BYTES_MAX + 1));
    let firsts = [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=",
        "n,,n=,r=",
        "n,,r=abc",
        "p=tls-server-end-point,,n=,r=abc",
        "n,a=other,n=,r=abc",
        "x,,n=,r=abc",
        "n,,n=,r=a\u{e9}",
        "n,,n=,r=a\nb",
        &long,
    ];
    for first in firsts {
        assert!(
            Exchange::begin(first.as_bytes(), salt, 4096, 7, Binding::None).is_err(),
            "{first:?}"
        );
    }
    assert!(Exchange::begin(b"n,,n=,r=\xff", salt, 4096, 7, Binding::None).is_err());
    let Ok((exchange, reply)) = Exchange::begin(b"n,,n=,r=abc", salt, 4096, 7, Binding::None)
    else {
        panic!("a plain message")
    };
    let right = last_message("n,,n=,r=abc", &reply, "pencil");
    assert!(exchange.proof(right.as_bytes()).is_ok());
    let (said, _) = right.rsplit_once(",p=").unwrap();
    let lasts = [
        String::new(),
        said.to_owned(),
        format!("{said},p="),
        format!("{said},p=AAAA"),
        format!("{said},p=%"),
        right.replace("c=biws", "c=eSws"),
        right.replace("r=abc", "r=abd"),
    ];
    for last in lasts {
        assert!(exchange.proof(last.as_bytes()).is_err(), "{last:?}");
    }
}

#[test]
fn salts_differ_by_person_and_cluster() {
    let salt = salt_of(&[1; 32], b"ann");
    assert_eq!(salt, salt_of(&[1; 32], b"ann"));
    assert_ne!(salt, salt_of(&[1; 32], b"bob"));
    assert_ne!(salt, salt_of(&[2; 32], b"ann"));
}
