//! One line → one frame, with the values that JavaScript's `JSON.parse` would give. Owns what a valid frame is and which
//! fault an invalid one is; whether a data frame is new, `sequence` decides. Borrows from the line: a data frame's
//! payload is looked at no sooner than it is decoded, since an already seen frame is skipped unread.

use super::Stream;
use super::json::{self, Text, Value};
use crate::error::Fault;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};
use std::sync::LazyLock;

#[derive(Debug, PartialEq)]
pub enum Frame<'a> {
    Data(DataFrame<'a>),
    Heartbeat,
    Exit(Exit),
}

/// Output. Its number is valid; its stream and payload are not judged yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataFrame<'a> {
    pub seq: u64,
    stream: Value<'a>,
    data: Value<'a>,
}

/// How a process ended; at least one of the two is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    /// An integer, of any size that a JavaScript number has.
    pub code: Option<f64>,
    /// UTF-16, as it came: beside an integer code it may be any text, also half a surrogate pair.
    pub signal: Option<Vec<u16>>,
}

/// What odd lines need space for, kept from line to line.
#[derive(Debug, Default)]
pub struct Scratch {
    repaired: String,
    nesting: Vec<u8>,
}

/// Judges a line without its newline. An error event, too, is an error here.
pub fn parse<'a>(line: &'a [u8], scratch: &'a mut Scratch) -> Result<Frame<'a>, Fault> {
    let Scratch { repaired, nesting } = scratch;
    let text = match simdutf8::basic::from_utf8(line) {
        Ok(text) => text,
        Err(_) => {
            repaired.clear();
            super::text::push_lossy(repaired, line);
            repaired
        }
    };
    let fields = Fields::read(text, nesting)?;
    let Value::Text(kind) = fields.kind else { return Err(Fault::EventUnknown) };
    if kind.is("data") {
        let seq = sequence_number(fields.seq).ok_or(Fault::SequenceInvalid)?;
        Ok(Frame::Data(DataFrame { seq, stream: fields.stream, data: fields.data }))
    } else if kind.is("heartbeat") {
        Ok(Frame::Heartbeat)
    } else if kind.is("exit") {
        let signal = if let Value::Text(text) = fields.signal { Some(text.units().collect()) } else { None };
        Exit::new(number(fields.exit_code), signal).map(Frame::Exit)
    } else if kind.is("error") {
        match fields.error {
            Value::Text(error) if error.is("output_offset_expired") => Err(Fault::OutputEvicted),
            _ => Err(Fault::StreamError),
        }
    } else {
        Err(Fault::EventUnknown)
    }
}

/// The members that some frame has a use for. One that is missing is no different from `null`.
struct Fields<'a> {
    kind: Value<'a>,
    seq: Value<'a>,
    stream: Value<'a>,
    data: Value<'a>,
    exit_code: Value<'a>,
    signal: Value<'a>,
    error: Value<'a>,
}

impl<'a> Fields<'a> {
    fn read(text: &'a str, nesting: &mut Vec<u8>) -> Result<Self, Fault> {
        const NAMES: [&str; 7] = ["type", "seq", "stream", "data_base64", "exit_code", "signal", "error"];
        let mut values = [Value::Other; NAMES.len()];
        json::members(text, nesting, |key, value| {
            // Of repeated keys the last counts.
            if let Some(index) = NAMES.iter().position(|name| key.is(name)) {
                values[index] = value;
            }
        })
        .map_err(|json::Invalid| Fault::FrameInvalid)?;
        let [kind, seq, stream, data, exit_code, signal, error] = values;
        Ok(Self { kind, seq, stream, data, exit_code, signal, error })
    }
}

/// The double that JavaScript makes of a JSON number; infinite when it is out of range.
fn number(value: Value<'_>) -> Option<f64> {
    if let Value::Number(digits) = value { digits.parse().ok() } else { None }
}

/// A safe integer from 1, however it is written.
fn sequence_number(value: Value<'_>) -> Option<u64> {
    const MAX_SAFE_INTEGER: u64 = 9_007_199_254_740_991;
    let Value::Number(digits) = value else { return None };
    // Digits alone, as servers write it, need no floating point.
    let seq = digits.parse().ok().or_else(|| {
        let seq = number(value)?;
        // Past 2^64 it saturates, which is past the range all the same.
        (seq >= 1.0 && seq.fract() == 0.0).then_some(seq as u64)
    })?;
    (1..=MAX_SAFE_INTEGER).contains(&seq).then_some(seq)
}

impl DataFrame<'_> {
    /// Decodes the payload into `buffer`, over what that held, and says whose it is. After a fault the buffer's content
    /// means nothing.
    pub fn decode(&self, buffer: &mut Vec<u8>) -> Result<Stream, Fault> {
        let (Value::Text(stream), Value::Text(data)) = (self.stream, self.data) else {
            return Err(Fault::OutputInvalid);
        };
        let stream = Stream::ALL.into_iter().find(|known| stream.is(known.as_str())).ok_or(Fault::OutputInvalid)?;
        decode_base64(data, buffer).ok_or(Fault::OutputInvalid)?;
        Ok(stream)
    }
}

fn decode_base64(data: Text<'_>, buffer: &mut Vec<u8>) -> Option<()> {
    if let Some(plain) = data.plain() {
        // Whatever the buffer held is written over: only where it grows are there zeros to be written first.
        buffer.resize(base64::decoded_len_estimate(plain.len()), 0);
        let length = BASE64.decode_slice(plain, buffer).ok()?;
        buffer.truncate(length);
        return Some(());
    }
    // Encoders that escape slashes do so in nearly every frame. The second half of the buffer takes the unescaped
    // characters, so that these frames, too, need no memory of their own.
    buffer.resize(2 * data.raw_len(), 0);
    let (decoded, unescaped) = buffer.split_at_mut(data.raw_len());
    let length = data.unescape(unescaped)?;
    let length = BASE64.decode_slice(&unescaped[..length], decoded).ok()?;
    buffer.truncate(length);
    Some(())
}

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
type Base64 = base64::engine::Simd;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon"))))]
type Base64 = base64::engine::GeneralPurpose;

/// Padding must be there, but the bits before it need not be zero: JavaScript does not look at them.
static BASE64: LazyLock<Base64> = LazyLock::new(|| {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
    return Base64::standard(config);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon"))))]
    return Base64::new(&base64::alphabet::STANDARD, config);
});

impl Exit {
    /// An integer code stands, with whatever text the signal is. Without one a signal that is named like one must be
    /// there, and a code that is no integer is none.
    pub fn new(code: Option<f64>, signal: Option<Vec<u16>>) -> Result<Self, Fault> {
        let code = code.filter(|code| code.is_finite() && code.fract() == 0.0);
        if code.is_some() || signal.as_deref().is_some_and(is_signal_name) {
            Ok(Self { code, signal })
        } else {
            Err(Fault::ExitStatusMissing)
        }
    }
}

/// `/^SIG[A-Z0-9]+$/`
fn is_signal_name(units: &[u16]) -> bool {
    let is_name = |&unit: &u16| u8::try_from(unit).is_ok_and(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    units
        .strip_prefix(&[b'S' as u16, b'I' as u16, b'G' as u16])
        .is_some_and(|rest| !rest.is_empty() && rest.iter().all(is_name))
}

/// An exit status that came as other JSON than a frame: the members `exit_code` and `signal` of a process.
pub fn exit_status(exit_code: Option<&serde_json::Value>, signal: Option<&serde_json::Value>) -> Result<Exit, Fault> {
    let signal = signal.and_then(|signal| signal.as_str()).map(|text| text.encode_utf16().collect());
    Exit::new(exit_code.and_then(|code| code.as_f64()), signal)
}

#[cfg(test)]
mod tests;
