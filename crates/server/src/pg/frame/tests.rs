use bytes::BufMut;
use proptest::prelude::*;
use testbed::property::{self, Plan};

use super::*;

const MAX: usize = 1 << 16;

fn message(kind: u8, body: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_u8(kind);
    bytes.put_i32(i32::try_from(body.len() + LENGTH_BYTES).unwrap());
    bytes.put_slice(body);
    bytes
}

fn one(kind: u8, body: &[u8]) -> Frame {
    let mut bytes = message(kind, body);
    let frame = cut(&mut bytes, MAX).unwrap().expect("it is all there");
    assert!(bytes.is_empty());
    frame
}

fn is_message(frame: &Frame) -> bool {
    matches!(frame, Frame::Message(_))
}

fn flaw(frame: Frame) -> Option<Flaw> {
    match frame {
        Frame::Unreadable(_, flaw) => Some(flaw),
        Frame::Message(_) => None,
    }
}

/// A good message of each kind.
fn good() -> Vec<(u8, Vec<u8>)> {
    vec![
        (b'Q', b"SHOW JOBS\0".to_vec()),
        (b'P', b"name\0SELECT $1\0\x00\x01\x00\x00\x00\x19".to_vec()),
        (
            b'B',
            b"\0name\0\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03abc\xff\xff\xff\xff\x00\x00".to_vec(),
        ),
        (b'D', b"Sname\0".to_vec()),
        (b'C', b"P\0".to_vec()),
        (b'E', b"\0\x00\x00\x00\x0a".to_vec()),
        (b'H', Vec::new()),
        (b'S', Vec::new()),
        (b'X', Vec::new()),
        (b'p', b"anything \xff".to_vec()),
        (b'd', b"\x00\x01".to_vec()),
        (b'c', Vec::new()),
        (b'f', b"no more\0".to_vec()),
    ]
}

#[test]
fn every_kind_is_read() {
    let kinds: Vec<u8> = good().into_iter().map(|(kind, _)| kind).collect();
    assert!(SHAPES.iter().all(|(kind, _)| kinds.contains(kind)), "one of each");
    for (kind, body) in good() {
        assert!(is_message(&one(kind, &body)), "{}", char::from(kind));
    }
}

#[test]
fn a_message_that_is_not_all_there_is_waited_for() {
    let whole = message(b'Q', b"SHOW JOBS\0");
    for length in 0..whole.len() {
        let mut part = BytesMut::from(&whole[..length]);
        assert!(cut(&mut part, MAX).unwrap().is_none(), "{length} bytes");
        assert_eq!(part.len(), length);
    }
    // Two in a row are two.
    let mut two = message(b'Q', b"a\0");
    two.extend_from_slice(&message(b'S', b""));
    assert!(is_message(&cut(&mut two, MAX).unwrap().unwrap()));
    assert!(is_message(&cut(&mut two, MAX).unwrap().unwrap()));
    assert!(two.is_empty());
}

#[test]
fn a_body_that_ends_too_early_or_too_late_is_told() {
    for (kind, body) in good() {
        if matches!(kind, b'p' | b'd') {
            continue;
        }
        for length in 0..body.len() {
            let frame = one(kind, &body[..length]);
            assert_eq!(flaw(frame), Some(Flaw::Shape), "{} {length}", char::from(kind));
        }
        let longer = [&body[..], b"\0"].concat();
        assert_eq!(flaw(one(kind, &longer)), Some(Flaw::Shape), "{}", char::from(kind));
    }
}

#[test]
fn counts_and_lengths_inside_are_not_believed() {
    let huge: &[(u8, &[u8])] = &[
        (b'P', b"\0SELECT 1\0\xff\xff"),
        (b'B', b"\0\0\xff\xff"),
        (b'B', b"\0\0\x00\x00\xff\xff"),
        (b'B', b"\0\0\x00\x00\x00\x01\x7f\xff\xff\xff"),
        (b'B', b"\0\0\x00\x00\x00\x01\x80\x00\x00\x00"),
        (b'B', b"\0\0\x00\x00\x00\x01\xff\xff\xff\xfe"),
        (b'B', b"\0\0\x00\x00\x00\x00\xff\xff"),
    ];
    for (kind, body) in huge {
        assert_eq!(flaw(one(*kind, body)), Some(Flaw::Shape), "{body:?}");
    }
}

#[test]
fn letters_that_are_none_are_told() {
    assert_eq!(flaw(one(b'Q', b"SHOW \xff\0")), Some(Flaw::Letters));
    assert_eq!(flaw(one(b'P', b"\0SELECT '\xc3'\0\x00\x00")), Some(Flaw::Letters));
    assert_eq!(flaw(one(b'D', b"S\xed\xa0\x80\0")), Some(Flaw::Letters));
}

#[test]
fn a_length_that_cannot_be_ends_the_conversation() {
    for length in [0, 1, 3, -1, i32::MIN, i32::MAX, i32::try_from(MAX).unwrap() + 1] {
        let mut bytes = BytesMut::from(&b"Q"[..]);
        bytes.put_i32(length);
        assert_eq!(cut(&mut bytes, MAX).unwrap_err(), Lost::Length(length));
        let mut first = BytesMut::new();
        first.put_i32(length);
        assert_eq!(cut_first(&mut first, MAX).unwrap_err(), Lost::Length(length));
    }
    let mut first = BytesMut::new();
    first.put_i32(7);
    assert_eq!(cut_first(&mut first, MAX).unwrap_err(), Lost::Length(7));
    let mut unknown = BytesMut::from(&b"F\0\0\0\x04"[..]);
    assert_eq!(cut(&mut unknown, MAX).unwrap_err(), Lost::Kind(b'F'));
}

#[test]
fn nothing_is_reserved_for_what_was_only_announced() {
    let mut bytes = BytesMut::from(&b"Q"[..]);
    bytes.put_i32(1 << 30);
    assert!(cut(&mut bytes, usize::MAX).unwrap().is_none());
    assert!(bytes.capacity() < 1 << 10);
}

/// Whatever comes, it is read, refused, or waited for.
#[test]
fn no_bytes_are_too_much() {
    let test = testbed::this_test!("no_bytes_are_too_much");
    let plan = Plan { test, seed: 0x5eed_f4a3, cases: 256 };
    property::check(plan, &proptest::collection::vec(any::<u8>(), 0..200), |bytes| {
        let mut bytes = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = cut(&mut bytes, MAX) {}
        let mut first = bytes.clone();
        let _ = cut_first(&mut first, MAX);
        Ok(())
    });
}

/// A good message of which some bytes changed.
#[test]
fn no_change_of_a_good_message_is_too_much() {
    let test = testbed::this_test!("no_change_of_a_good_message_is_too_much");
    let plan = Plan { test, seed: 0x5eed_f4a3, cases: 256 };
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let changed = (0_usize..13, proptest::collection::vec(change, 1..4));
    property::check(plan, &changed, |(which, changes)| {
        let (kind, mut body) = good().swap_remove(which);
        for (at, byte) in changes {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = byte;
            }
        }
        let mut bytes = message(kind, &body);
        prop_assert!(cut(&mut bytes, MAX).unwrap().is_some());
        prop_assert!(bytes.is_empty());
        Ok(())
    });
}
