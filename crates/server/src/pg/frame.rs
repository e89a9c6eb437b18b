//! Frames: what a client sends has a length that is allowed and the shape of its kind before
//! it is read.
//!
//! The decoders of `pgwire` trust the counts and lengths inside of a message, and read letters that
//! are none as something else. So the shape of each kind is a row of a table here, and a frame is
//! cut off and held against it first.

use bytes::{Buf, BytesMut};
use pgwire::messages::{DecodeContext, PgWireFrontendMessage, ProtocolVersion};

/// The length of a message counts itself.
const LENGTH_BYTES: usize = 4;

/// A field of a message.
#[derive(Clone, Copy)]
enum Part {
    /// A zero-terminated string.
    Text,
    /// A byte.
    Byte,
    /// Four bytes.
    Number,
    /// A count of two bytes, and so many things of this size.
    List(usize),
    /// A count of two bytes, and so many values, each with its length before it.
    Values,
    /// All remaining bytes.
    Rest,
}

use Part::{Byte, List, Number, Rest, Text, Values};

/// The messages of a client, by their first byte.
const SHAPES: &[(u8, &[Part])] = &[
    (b'B', &[Text, Text, List(2), Values, List(2)]),
    (b'C', &[Byte, Text]),
    (b'D', &[Byte, Text]),
    (b'E', &[Text, Number]),
    (b'H', &[]),
    (b'P', &[Text, Text, List(4)]),
    (b'Q', &[Text]),
    (b'S', &[]),
    (b'X', &[]),
    (b'c', &[]),
    (b'd', &[Rest]),
    (b'f', &[Text]),
    (b'p', &[Rest]),
];

/// A message, or what takes its place.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A message.
    Message(PgWireFrontendMessage),
    /// One of this kind that cannot be read. The next one can.
    Unreadable(u8, Flaw),
}

/// An error in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It is too short or too long for its fields.
    Shape,
    /// A string in it is not UTF-8.
    Letters,
}

/// An error after which the start of the next message is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// There is no message of this kind.
    Kind(u8),
    /// It is shorter than its own head, or longer than the limit.
    Length(i32),
}

/// Cuts the next message off; none while it is not all there. Nothing is reserved for what has only
/// been announced.
pub(crate) fn cut(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<Frame>, Lost> {
    let Some(kind) = buffer.first().copied() else { return Ok(None) };
    let Some((_, shape)) = SHAPES.iter().find(|(known, _)| *known == kind) else {
        return Err(Lost::Kind(kind));
    };
    let Some(length) = length_at(buffer, 1) else { return Ok(None) };
    let whole = checked(length, bytes_max)? + 1;
    if buffer.len() < whole {
        return Ok(None);
    }
    let mut frame = buffer.split_to(whole);
    Ok(Some(match flaw_in(&frame[1 + LENGTH_BYTES..], shape) {
        Some(flaw) => Frame::Unreadable(kind, flaw),
        None => match decode(&mut frame) {
            Some(message) => Frame::Message(message),
            None => Frame::Unreadable(kind, Flaw::Shape),
        },
    }))
}

/// Cuts the first packet of a conversation off, which has no kind.
pub(crate) fn cut_first(buffer: &mut BytesMut, bytes_max: usize) -> Result<Option<BytesMut>, Lost> {
    let Some(length) = length_at(buffer, 0) else { return Ok(None) };
    let whole = checked(length, bytes_max)?;
    // A number says what it is.
    if whole < 2 * LENGTH_BYTES {
        return Err(Lost::Length(length));
    }
    Ok((buffer.len() >= whole).then(|| buffer.split_to(whole)))
}

fn length_at(buffer: &[u8], at: usize) -> Option<i32> {
    let bytes = buffer.get(at..at + LENGTH_BYTES)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

fn checked(length: i32, bytes_max: usize) -> Result<usize, Lost> {
    let bytes = usize::try_from(length).ok();
    bytes.filter(|bytes| (LENGTH_BYTES..=bytes_max).contains(bytes)).ok_or(Lost::Length(length))
}

fn decode(frame: &mut BytesMut) -> Option<PgWireFrontendMessage> {
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    context.awaiting_frontend_ssl = false;
    context.awaiting_frontend_startup = false;
    PgWireFrontendMessage::decode(frame, &context).ok().flatten()
}

fn flaw_in(mut body: &[u8], shape: &[Part]) -> Option<Flaw> {
    for part in shape {
        if let Err(flaw) = take(&mut body, *part) {
            return Some(flaw);
        }
    }
    (!body.is_empty()).then_some(Flaw::Shape)
}

fn take(body: &mut &[u8], part: Part) -> Result<(), Flaw> {
    let length = match part {
        Text => {
            let end = body.iter().position(|byte| *byte == 0).ok_or(Flaw::Shape)?;
            std::str::from_utf8(&body[..end]).map_err(|_| Flaw::Letters)?;
            end + 1
        }
        Byte => 1,
        Number => 4,
        List(size) => usize::from(count(body)?) * size,
        Values => {
            for _ in 0..count(body)? {
                let length = body.try_get_i32().map_err(|_| Flaw::Shape)?;
                // Nothing at all is a length of minus one.
                let length = if length == -1 { Ok(0) } else { usize::try_from(length) };
                skip(body, length.map_err(|_| Flaw::Shape)?)?;
            }
            0
        }
        Rest => body.len(),
    };
    skip(body, length)
}

fn count(body: &mut &[u8]) -> Result<u16, Flaw> {
    body.try_get_u16().map_err(|_| Flaw::Shape)
}

fn skip(body: &mut &[u8], length: usize) -> Result<(), Flaw> {
    *body = body.get(length..).ok_or(Flaw::Shape)?;
    Ok(())
}

#[cfg(test)]
mod tests;
